package links_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon/command/collect"
	"carillon/command/collect/crawl/links"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func address(t testing.TB, text string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(text))(t)
	return u
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	page := address(t, "https://www.Kajhallen.example/programme?page=2")
	for ref, want := range map[string]string{
		"/e/1":        "https://www.kajhallen.example/e/1",
		"\te/1#top\n": "https://www.kajhallen.example/e/1",
		"https://kajhallen.example/e/1?utm_source=x&id=3&fbclid=9": "https://kajhallen.example/e/1?id=3",
		"http://www.kajhallen.example:80":                          "https://www.kajhallen.example/",
		"//WWW.KAJHALLEN.EXAMPLE/E":                                "https://www.kajhallen.example/E",
		"webcal://kajhallen.example/x":                             "https://kajhallen.example/x",
		"/e;jsessionid=0123456789ABCDEF?PHPSESSID=abc&id=1":        "https://www.kajhallen.example/e?id=1",
		"/(S(lit3py55t21z5v55vlm25s55))/e.aspx":                    "https://www.kajhallen.example/e.aspx",
		"/e?sid=9f8e7d6c5b4a39281706f5e4d3c2b1a0&day=3":            "https://www.kajhallen.example/e?day=3",
		"/e?day=3&_=1763900000123&t=1763900000":                    "https://www.kajhallen.example/e?day=3",
		"/e?sid=12&session=spring":                                 "https://www.kajhallen.example/e?sid=12&session=spring",
		"/kaf%C3%A9/é":                                             "https://www.kajhallen.example/kaf%C3%A9/%C3%A9",
		"https://kajhallen.example.evil.example/":                  "",
		"https://kajhallen.example@evil.example/":                  "",
		"https://user:password@www.kajhallen.example/":             "",
		"https://sub.kajhallen.example/":                           "",
		"https://kajhallen.example:8443/":                          "",
		"http://127.0.0.1/":                                        "",
		"file:///etc/passwd":                                       "",
		"javascript:void(0)":                                       "",
		"mailto:a@kajhallen.example":                               "",
		"gopher://www.kajhallen.example/":                          "",
		"http://[::1":                                              "",
		"https://www.kajhallen.example/%zz":                        "",
		"/" + strings.Repeat("x", collect.MaxAddress):              "",
		"/" + strings.Repeat("é", collect.MaxAddress/4):            "",
		"/<script>": "",
		"\x00":      "",
	} {
		got := ""
		if u := links.New(page, nil, 1).Resolve(ref); u != nil {
			got = u.String()
		}
		assert.Equal(t, got, want, "%.60q", ref)
	}
	if u := links.New(address(t, "https://bücher.example/"), nil,
		1).Resolve("https://xn--bcher-kva.example/ü"); u == nil || u.Host != "xn--bcher-kva.example" {
		t.Errorf("the same host in ASCII gives %v", u)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	s := links.New(address(t, "https://a.example/list"), address(t, "https://a.example/base/"), 3)
	s.Leave(address(t, "https://a.example/left"))
	for _, ref := range []string{"1", "/base/1", "1/", "http://www.a.example/base/1#x", "/list", "/list#more", "/left",
		"https://b.example/", "file:///x", "2", "3", "4", "5", "4"} {
		s.Add(ref, collect.Link{Role: "page"})
	}
	want := []collect.Link{{Address: "https://a.example/base/1", Role: "page"}, {Address: "https://a.example/base/2",
		Role: "page"}, {Address: "https://a.example/base/3", Role: "page"}}
	if diff := cmp.Diff(want, s.Links); diff != "" || s.Cut() != 3 {
		t.Errorf("cut %d (-want +got):\n%s", s.Cut(), diff)
	}
	var notes collect.Notes
	s.Note(&notes)
	assert.True(t, len(notes) == 2 && notes[0].Code == collect.NoteLeftOut && !notes.Partial(), "notes %v", notes)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/a.PDF": true, "/a.jpg": true, "/a.ics": true, "/a.html": false, "/a": false,
		"/a.": false, "/a.php": false, "/pdf": false, "/v1.2": false} {
		assert.Equal(t, links.IsFile(&url.URL{Path: path}), want, "%s", path)
	}
}

// FuzzResolve shows that a resolved address is one of the site on the web, and resolves to itself.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"/e/1", "https://a.example/é?sid=0123456789abcdef0", ";jsessionid=1", "//b.example",
		"http://a.example:80/..//x%2f", "webcals:x", "/(S(a))/", "?utm_x", "#", "%"} {
		f.Add(seed)
	}
	page := address(f, "https://a.example/list?page=1")
	f.Fuzz(func(t *testing.T, ref string) {
		u := links.New(page, nil, 1).Resolve(ref)
		if u == nil {
			return
		}
		text := u.String()
		parsed, err := url.Parse(text)
		if err != nil || parsed.User != nil || parsed.Fragment != "" || len(text) > collect.MaxAddress ||
			parsed.Scheme != "http" && parsed.Scheme != "https" ||
			strings.TrimPrefix(strings.TrimSuffix(parsed.Hostname(), "."), "www.") != "a.example" {
			t.Fatalf("%q gives %q, %v", ref, text, err)
		}
		again := links.New(page, nil, 1).Resolve(text)
		assert.True(t, again != nil && again.String() == text, "%q gives %q, which gives %v", ref, text, again)
	})
}
