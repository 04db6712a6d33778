package linkfile_test

import (
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/linkfile"
	"carillon/command/collect/crawl/walktest"
)

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
				if e.Address == "" || len(e.Address) > 4*collect.MaxAddress+64<<10 || len(e.Modified) > 64 ||
					e.Kind < linkfile.Page || e.Kind > linkfile.Post {
					t.Errorf("entry %+v", e)
				}
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
		if once != oneByte {
			t.Errorf("at once:\n%s\nbyte by byte:\n%s", once, oneByte)
		}
	})
}
