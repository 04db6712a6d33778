package linkfile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/unicode"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/linkfile"
	"carillon/command/collect/crawl/walktest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// outline reads a file and returns a line for each entry.
func outline(t *testing.T, contentType, body string) string {
	t.Helper()
	var b strings.Builder
	result, err := linkfile.Read(budget.New(t.Context()), strings.NewReader(body), contentType,
		func(e linkfile.Entry) bool {
			fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprint(map[linkfile.Kind]string{
				linkfile.Page: "page", linkfile.File: "file", linkfile.Post: "post",
			}[e.Kind], " ", e.Address, " ", e.Modified)))
			return true
		})
	if err != nil {
		fmt.Fprintln(&b, "error:", err)
	}
	if result.Cut != "" {
		fmt.Fprintln(&b, "cut:", result.Cut)
	}
	return b.String()
}

func wide(t testing.TB, order unicode.Endianness, mark unicode.BOMPolicy, body string) string {
	t.Helper()
	text := must.Get(unicode.UTF16(order, mark).NewEncoder().String(body))(t)
	return text
}

const (
	declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	namespace   = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
	latin       = `<urlset ` + namespace + `><url><loc>https://a.example/café?a=1&amp;b=2</loc>` +
		`<lastmod>2026-11-01</lastmod></url></urlset>`
	latinRead = "page https://a.example/café?a=1&b=2 2026-11-01\n"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ contentType, body, want string }{
		"sitemap":         {"application/xml", declaration + latin, latinRead},
		"no declaration":  {"text/html", latin, latinRead},
		"blank lines":     {"", "\r\n\n  " + declaration + latin, latinRead},
		"words before it": {"", "<b>Warning</b>: no memory in x.php\n" + declaration + latin, latinRead},
		"another version": {"", `<?xml version="1.1" encoding="nonsense" standalone='yes'?>` + latin, latinRead},
		"mark":            {"", "\xef\xbb\xbf" + declaration + latin, latinRead},
		"zipped":          {"application/octet-stream", walktest.Zipped(t, declaration+latin), latinRead},
		"zipped twice":    {"", walktest.Zipped(t, walktest.Zipped(t, latin)), latinRead},
		"UTF-16, mark": {"", wide(t, unicode.BigEndian, unicode.UseBOM, `<?xml version="1.0" encoding="UTF-16"?>`+latin),
			latinRead},
		"UTF-16, no mark": {"", wide(t, unicode.LittleEndian, unicode.IgnoreBOM, latin), latinRead},
		"said to be wide": {"", `<?xml version="1.0" encoding="UTF-16"?>` + latin, latinRead},
		"declared Latin": {"text/xml; charset=utf-8", `<?xml version="1.0" encoding="ISO-8859-1"?>` +
			strings.ReplaceAll(latin, "é", "\xe9"), latinRead},
		"Latin by header": {"text/xml; charset=iso-8859-1", strings.ReplaceAll(latin, "é", "\xe9"), latinRead},
		"bytes that are nothing": {
			"", "<urlset><url><loc>https://a.example/\xff\x01\x00x</loc></url></urlset>",
			"page https://a.example/\ufffd\ufffd\ufffdx\n",
		},
		"other namespaces": {
			"", `<s:urlset xmlns:s="http://www.google.com/schemas/sitemap/0.84"><s:url><s:loc>https://a.example/1</s:loc>` +
				`</s:url></s:urlset>`,
			"page https://a.example/1\n",
		},
		"upper case": {"", "<URLSET><URL><LOC>https://a.example/1</LOC></URL></URLSET>", "page https://a.example/1\n"},
		"marked section": {
			"", "<urlset><url><loc><![CDATA[ https://a.example/?a=1&b=2 ]]></loc></url></urlset>",
			"page https://a.example/?a=1&b=2\n",
		},
		"ampersands as they are": {"", "<urlset><url><loc>https://a.example/?a=1&b=2&copy=3</loc></url></urlset>",
			"page https://a.example/?a=1&b=2&copy=3\n"},
		"pictures, videos and other languages": {
			"", `<urlset xmlns:image="i"><url><image:image><image:loc>https://a.example/x.jpg</image:loc></image:image>
				<loc>https://a.example/1</loc><image:loc>https://a.example/y.jpg</image:loc>
				<xhtml:link rel="alternate" hreflang="de" href="https://a.example/de"/>
				<news:news><news:publication_date>2020-01-01</news:publication_date></news:news></url></urlset>`,
			"page https://a.example/1\n",
		},
		"index": {
			"", `<sitemapindex ` + namespace + `><sitemap><loc>https://a.example/1.xml</loc>` +
				`<lastmod>2026-11-01T10:00:00+01:00</lastmod></sitemap>
				<sitemap><loc>https://a.example/2.xml</loc></sitemap></sitemapindex>`,
			"file https://a.example/1.xml 2026-11-01T10:00:00+01:00\nfile https://a.example/2.xml\n",
		},
		"entries never closed":  {"", "<urlset><url><loc>/1</loc><url><loc>/2</loc></urlset>", "page /1\npage /2\n"},
		"entries by themselves": {"", "<url><loc>/1</loc></url><url><loc>/2</loc></url>", "page /1\npage /2\n"},
		"nothing of an entry":   {"", "<urlset><url><lastmod>2026-01-01</lastmod></url><url/></urlset>", ""},
		"dates that are none": {
			"", "<urlset><url><loc>/1</loc><lastmod>0000-00-00</lastmod></url><url><loc>/2</loc><lastmod>today</lastmod></url>" +
				"<url><loc>/3</loc><lastmod>1970-01-01</lastmod></url><url><loc>/4</loc><lastmod>2026</lastmod></url></urlset>",
			"page /1\npage /2\npage /3\npage /4 2026\n",
		},
		"breaks off": {"", "<urlset><url><loc>/1</loc></url><url><loc>/2</loc>",
			"page /1\npage /2\ncut: it breaks off\n"},
		"breaks off in a tag": {"", "<urlset><url><loc>/1</loc></url><url><lo",
			"page /1\ncut: it can't be read from byte 40 on\n"},
		"zip that breaks off": {"", walktest.Zipped(t, latin)[:60], "cut: it can't be read from byte 15 on\n"},
		"entities": {
			"", `<!DOCTYPE urlset [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
				<urlset><url><loc>/&b;</loc></url><url><loc>&f;</loc></url></urlset>`,
			"page /&b;\npage &f;\n",
		},
		"text": {
			"text/plain", "\ufeffhttps://a.example/1\r\n\r\n# a remark\nHTTPS://A.example/2  \nfile:///etc/passwd\n" +
				"https://a.example/3",
			"page https://a.example/1\npage HTTPS://A.example/2\npage file:///etc/passwd\npage https://a.example/3\n",
		},
		"RSS": {
			"application/rss+xml", declaration + `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>` +
				`<link>https://a.example/</link>
				<atom:link rel="self" href="https://a.example/feed"/>
				<item><title>x</title><link>https://a.example/1</link><guid>https://a.example/?p=1</guid><pubDate>Sun, 06 Sep ` +
				`2009 16:20:00 +0000</pubDate></item>
				<item><guid isPermaLink="true">https://a.example/2</guid></item>
				<item><guid isPermaLink="false">https://a.example/3</guid></item>
				<item><link>https://counter.example/x</link><feedburner:origLink>https://a.example/4</feedburner:origLink></item>
				<item><enclosure url="https://a.example/5.mp3"/></item></channel></rss>`,
			"post https://a.example/1\npost https://a.example/2\npost https://a.example/4\n",
		},
		"RSS 1.0": {
			"", `<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel rdf:about="https://a.example/"><items><rdf:li ` +
				`resource="https://a.example/1"/></items></channel>
				<item rdf:about="https://a.example/1"><link>https://a.example/1?from=feed</link></item><item ` +
				`rdf:about="https://a.example/2"/></rdf:RDF>`,
			"post https://a.example/1?from=feed\npost https://a.example/2\n",
		},
		"Atom": {
			"", `<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://a.example/"/><entry>` +
				`<id>https://a.example/id</id><updated>2026-01-01T00:00:00Z</updated>
				<link rel="edit" href="https://a.example/edit"/><link rel="alternate" href="https://a.example/1"/><link ` +
				`href="https://a.example/other"/>
				<content type="xhtml"><div><a href="/x">x</a><entry>no</entry></div></content></entry></feed>`,
			"post https://a.example/1\n",
		},
		"page of HTML": {"text/html", "<!DOCTYPE html><html><body><loc>https://a.example/1</loc>",
			"error: content type is not supported: it is neither a sitemap nor a feed but <html>\n"},
		"words": {"", strings.Repeat("Some words.\n", 9),
			"error: content type is not supported: it lists no pages\n"},
		"nothing":           {"", "", "error: content type is not supported: it is empty: EOF\n"},
		"nothing but blank": {"", " \n\n", "error: content type is not supported: it lists no pages\n"},
		"mark alone":        {"", "\ufeff", "error: content type is not supported: it lists no pages\n"},
		"JSON": {"", `{"urls":["https://a.example/1"]}`,
			"error: content type is not supported: it lists no pages\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Same(t, outline(t, tt.contentType, tt.body), tt.want)
		})
	}
}

// Real files from the corpus, if there is one.
func TestCorpus(t *testing.T) {
	t.Parallel()
	const dir = "../../../../../shared/corpus/crawler-commons"
	for file, want := range map[string]int{
		"sitemaps/extension/pagemaps-sitemap.xml": 2, "sitemaps/extension/sitemap-links.xml": 3,
		"sitemaps/extension/sitemap-news.xml":   2,
		"sitemaps/extension/sitemap-videos.xml": 3, "sitemaps/sitemap-with-bom.txt": 2, "sitemaps/xmlSitemap.gz": 5,
		"rss/feed.rss": 3, "rss/xmlRss_pubDate.xml": 7,
	} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("the corpus is not there")
		}
		must.OK(t, err)
		got := outline(t, "", string(data))
		assert.True(t, strings.Count(got, "\n") == want && !strings.Contains(got, "cut:"), "%s:\n%s", file, got)
	}
}

// hostile are files that cost more than their length suggests.
func hostile(t testing.TB) map[string]io.Reader {
	t.Helper()
	forever := func(start, again string) io.Reader {
		return io.MultiReader(strings.NewReader(start), &repeated{text: again})
	}
	return map[string]io.Reader{
		"elements in elements": forever("<urlset>", "<a>"),
		"elements":             forever("<urlset>", "<a/>"),
		"ends":                 forever("<urlset>", "</a>"),
		"entries":              forever("<urlset>", "<url><lastmod>2026</lastmod></url>"),
		"attributes":           forever("<urlset><url ", `a="" `),
		"one text":             forever("<urlset><url><loc>", "https://a.example/"),
		"one value":            forever(`<urlset><url a="`, "https://a.example/"),
		"one remark":           forever("<urlset><!--", "https://a.example/"),
		"one declaration":      forever("<!DOCTYPE urlset [", `<!ENTITY a "bbbbbbbb">`),
		"one instruction":      forever("<urlset><?x ", "y"),
		"texts in an entry":    forever("<urlset><url><loc>", "https://a.example/<![CDATA[x]]><!-- -->"),
		"blanks":               forever("", " "),
		"lines":                forever("https://a.example/\n", "x\n"),
		"one line":             forever("https://a.example/\n", "https://a.example/"),
		"addresses":            forever("", "https://a.example/\n"),
		"a zip":                strings.NewReader(walktest.Zipped(t, "<urlset>"+strings.Repeat("<url></url>", 1<<19))),
		"a zip in a zip": strings.NewReader(walktest.Zipped(t, walktest.Zipped(t, "https://a.example/\n"+
			strings.Repeat("\n", 4<<20)))),
	}
}

type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		c := copy(p[n:], r.text[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.text)
	}
	return len(p), nil
}

// Reading a file stays within its budget.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for name, body := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			limited := io.MultiReader(io.LimitReader(body, 3<<20), iotest.ErrReader(collect.ErrTooLarge))
			result, err := linkfile.Read(budget.Of(t.Context(), 1_000_000, 1<<20), limited, "", func(linkfile.Entry) bool {
				return true
			})
			t.Logf("%d bytes, %s", result.Bytes, result.Cut)
			if err != nil && !errors.Is(err, collect.ErrUnsupportedContent) || err == nil && result.Cut == "" {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}

// The decompressed size is limited as the compressed size is.
func TestZipTooLarge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("large input, read by one goroutine: not run with the race detector")
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range linkfile.MaxBytes>>20 + 1 {
		must.Get(z.Write(bytes.Repeat([]byte{'x'}, 1<<20)))(t)
	}
	must.OK(t, z.Close())
	// one file, as gzip defines it
	body := io.MultiReader(strings.NewReader(walktest.Zipped(t, "https://a.example/1\n")), &b)
	result, err := linkfile.Read(budget.Of(t.Context(), 30_000_000, 1<<20), body, "", func(linkfile.Entry) bool {
		return true
	})
	assert.True(t, err == nil && result.Cut == "it is larger than 50 MB" && result.Bytes <= linkfile.MaxBytes,
		"%+v, %v", result, err)
}

func TestBodyFails(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"", "https://a.example/\n", "<urlset><url><loc>", "\x1f\x8b",
		walktest.Zipped(t, latin)[:30]} {
		_, err := linkfile.Read(budget.New(t.Context()), io.MultiReader(strings.NewReader(start),
			iotest.ErrReader(collect.ErrConnection)), "", func(linkfile.Entry) bool {
			return true
		})
		assert.Is(t, err, collect.ErrConnection, "%q", start)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := linkfile.Read(budget.New(ctx), &repeated{text: "<a>"}, "", func(linkfile.Entry) bool { return true })
	assert.True(t, err != nil, "the context's end is not heeded")
	assert.Is(t, assert.Err(linkfile.Read(budget.New(ctx), &repeated{text: "<url><loc>/1</loc></url>"}, "",
		func(linkfile.Entry) bool {
			return true
		})), context.Canceled, "the context's end")
}

// FuzzRead shows that reading ends, that addresses are limited, and that the result does not depend on the chunks of
// the input.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		declaration + latin, walktest.Zipped(f, latin), "\xff\xfe<\x00u\x00r\x00l\x00>\x00", "https://a.example/1\nx\n#\n",
		`<?xml encoding='iso-8859-1'?><urlset><url><loc>\xe9`,
		`<rss><channel><item><link>/1</link><guid isPermaLink="false">x</guid></item></channel></rss>`,
		`<feed><entry><link rel="alternate" href="/1"/></entry></feed>`,
		`<rdf:RDF><item rdf:about="/1"><feedburner:origLink>/2</feedburner:origLink></item></rdf:RDF>`,
		`<!DOCTYPE urlset [<!ENTITY a "b">]><urlset><url><loc>&a;<![CDATA[x]]>`,
		`<sitemapindex><sitemap><loc>/1</loc><lastmod>2026</lastmod></sitemap></sitemapindex>`,
		"<url><url></loc></url><a:url><a:loc>x",
	} {
		f.Add(seed, "text/xml; charset=utf-16")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, body, contentType string) {
		once, oneByte := "", ""
		for _, way := range []struct {
			bytewise bool
			found    *string
		}{{false, &once}, {true, &oneByte}} {
			var all []string
			take := func(e linkfile.Entry) bool {
				assert.True(t, e.Address != "" && len(e.Address) <= 4*collect.MaxAddress+64<<10 && len(e.Modified) <= 64 &&
					e.Kind >= linkfile.Page && e.Kind <= linkfile.Post, "entry %+v", e)
				all = append(all, e.Address+" "+e.Modified)
				return len(all) < 1000
			}
			var result linkfile.Result
			var err error
			if way.bytewise {
				result, err = linkfile.Read(budget.New(t.Context()), iotest.OneByteReader(strings.NewReader(body)),
					contentType, take)
			} else {
				result, err = linkfile.Read(budget.New(t.Context()), strings.NewReader(body), contentType, take)
			}
			if err != nil {
				all = append(all, err.Error())
			}
			*way.found = strings.Join(slices.Concat(all, []string{result.Cut}), "\n")
		}
		assert.Equal(t, once, oneByte, "at once: … byte by byte:")
	})
}
