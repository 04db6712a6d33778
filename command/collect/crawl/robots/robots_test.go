package robots_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/command/collect/crawl/robots"
	"carillon/eventstore/storetest/assert"
)

const agent = "Carillon/1.0 (+https://carillon.example)"

func TestAllowed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		allowed    []string
		refused    []string
	}{
		{"empty file", "", []string{"/", "/a?b=c"}, nil},
		{"everyone is refused", "User-agent: *\nDisallow: /", []string{"/robots.txt"}, []string{"/", "/a", ""}},
		{"empty rule refuses nothing", "User-agent: *\nDisallow:", []string{"/", "/a"}, nil},
		{"another crawler's group", "User-agent: other\nDisallow: /\n", []string{"/"}, nil},
		{"our group goes before the general one", "User-agent: *\nDisallow: /\nUser-agent: carillon\nDisallow: /x",
			[]string{"/", "/a"}, []string{"/x/1"}},
		{"a longer token isn't ours", "User-agent: CarillonBot\nDisallow: /", []string{"/"}, nil},
		{"version after the token", "User-agent: Carillon/2.1 beta\nDisallow: /", nil, []string{"/"}},
		{"groups of the same agent are merged", "User-agent: carillon\nDisallow: /a\n\nUser-agent: x\nDisallow: /b\n\n" +
			"User-agent: CARILLON\nDisallow: /c", []string{"/b"}, []string{"/a", "/c"}},
		{"several agents share a group", "User-agent: x\nUser-agent: carillon\nDisallow: /a", nil, []string{"/a"}},
		{"other lines don't end the list of agents", "User-agent: carillon\nRequest-rate: 1/5\n\nUser-agent: x\nDisallow: /a",
			nil, []string{"/a"}},
		{"longest rule wins", "User-agent: *\nDisallow: /a\nAllow: /a/b", []string{"/a/b", "/a/b/c"}, []string{"/a", "/a/c"}},
		{"allow wins a tie", "User-agent: *\nDisallow: /page\nAllow: /page", []string{"/page"}, nil},
		{"wildcards", "User-agent: *\nDisallow: /*.php\nDisallow: /a*b*c", []string{"/x.ph", "/acb"},
			[]string{"/x.php", "/d/y.php?z", "/abc", "/a1b2c3"}},
		{"end anchor", "User-agent: *\nDisallow: /*.pdf$\nDisallow: /exact$", []string{"/a.pdf?x", "/exact/more"},
			[]string{"/a.pdf", "/exact"}},
		{"anchored piece may not overlap", "User-agent: *\nDisallow: /ab*ba$", []string{"/aba"},
			[]string{"/abba", "/ab.ba.ba"}},
		{"queries are part of the path", "User-agent: *\nDisallow: /*?", []string{"/a"}, []string{"/a?b"}},
		{"escapes are compared by octets", "User-agent: *\nDisallow: /caf%c3%A9\nDisallow: /ü\nDisallow: /%61b",
			[]string{"/cafe"}, []string{"/caf%C3%A9", "/caf\u00e9", "/%C3%BC", "/ab"}},
		{"escaped reserved characters differ from plain ones", "User-agent: *\nDisallow: /a%2Fb", []string{"/a/b"},
			[]string{"/a%2fb"}},
		{"comments, spaces and case", " USER-AGENT : * # all\n  disALLOW :  /a  # b\n", []string{"/b"}, []string{"/a"}},
		{"misspellings and a missing colon", "useragent: *\ndissallow: /a\ndisallow /b", nil, []string{"/a", "/b"}},
		{"carriage returns end lines", "User-agent: *\rDisallow: /a\r\nDisallow: /b", nil, []string{"/a", "/b"}},
		{"rules before any agent belong to no one", "Disallow: /\nUser-agent: *\nDisallow: /a", []string{"/b"},
			[]string{"/a"}},
		{"an HTML page", "<!DOCTYPE html><html><body>Not: found</body></html>", []string{"/"}, nil},
		{"what is beyond the bound isn't read", "User-agent: *\nDisallow: /a\n" + strings.Repeat("#\n", robots.MaxBytes/2) +
			"Disallow: /b", []string{"/b"}, []string{"/a"}},
		{"byte order mark", "\ufeffUser-agent: *\nDisallow: /a", nil, []string{"/a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rules := robots.Parse([]byte(tt.file))
			for _, path := range tt.allowed {
				assert.True(t, rules.Allowed(agent, path), "%q is refused", path)
			}
			for _, path := range tt.refused {
				assert.True(t, !rules.Allowed(agent, path), "%q is allowed", path)
			}
		})
	}
}

func TestDelayAndSitemaps(t *testing.T) {
	t.Parallel()
	rules := robots.Parse([]byte("Sitemap: https://a.example/1.xml\nUser-agent: *\nCrawl-delay: 2.5\nDisallow: /a\n" +
		"Sitemap: /2.xml\nUser-agent: x\nCrawl-delay: 90"))
	assert.Equal(t, rules.CrawlDelay(agent), 2500*time.Millisecond, "delay")
	got := rules.Sitemaps()
	assert.True(t, len(got) == 2 && got[0] == "https://a.example/1.xml" && got[1] == "/2.xml", "sitemaps %q", got)
}

// The corpus has real and unusual files; the expectations are those in their comments.
func TestCorpus(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "..", "..", "shared", "corpus", "crawler-commons", "robots")
	tests := []struct {
		file, agent, path string
		allowed           bool
	}{
		{"extensions-group-merging.txt", "mybot", "/private/x", false},
		{"extensions-group-merging.txt", "mybot", "/login/", false},
		{"extensions-group-merging.txt", "yourbot", "/login/", false},
		{"extensions-group-merging.txt", "yourbot", "/open", true},
		{"extensions-group-merging.txt", agent, "/open", false},
		{"extensions-group-merging.txt", agent, "/llms.txt", true},
		{"precedence-of-rules.txt", "testy", "/foo/bar", true},
		{"precedence-of-rules.txt", "testy", "/foo/bed", false},
		{"precedence-of-rules.txt", "wget", "/index.html", true},
		{"malformed-path.txt", agent, "/wiki/Wikipedia_talk%3Mediation_Committee/", false},
		{"format-errors-robots.txt", "bot1", "/whitespace-before-colon/", false},
		{"format-errors-robots.txt", "bot1", "/no-colon/", false},
		{"robots-with-utf8-bom.txt", agent, "/", true},
	}
	for _, tt := range tests {
		t.Run(tt.file+" "+tt.path, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join(dir, tt.file))
			if err != nil {
				t.Skip("the corpus isn't here")
			}
			assert.Equal(t, robots.Parse(data).Allowed(tt.agent, tt.path), tt.allowed, "%s for %s: allowed", tt.path, tt.agent)
		})
	}
}

func TestUTF16(t *testing.T) {
	t.Parallel()
	text := "User-agent: *\nDisallow: /a"
	little, big := make([]byte, 0, 2+2*len(text)), make([]byte, 0, 2+2*len(text))
	little, big = append(little, 0xFF, 0xFE), append(big, 0xFE, 0xFF)
	for _, c := range []byte(text) {
		little, big = append(little, c, 0), append(big, 0, c)
	}
	for _, data := range [][]byte{little, big} {
		if rules := robots.Parse(data); rules.Allowed(agent, "/a") || !rules.Allowed(agent, "/b") {
			t.Errorf("a file in UTF-16 is misread: % x", data[:6])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /*a$\nAllow: /%4"), "/%zz")
	f.Fuzz(func(_ *testing.T, data []byte, path string) {
		rules := robots.Parse(data)
		rules.Allowed(agent, path)
		rules.CrawlDelay(agent)
	})
}
