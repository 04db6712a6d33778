package structured_test

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/budget/budgettest"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// FuzzRead shows that no page makes a reader panic, hang, or break its contract.
func FuzzRead(f *testing.F) {
	pages, err := filepath.Glob(filepath.Join("testdata", "*.html"))
	if err != nil || len(pages) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, name := range pages {
		page := must.Get(os.ReadFile(name))(f)
		f.Add(string(page))
	}
	for _, block := range []string{
		event(`,"subEvent":{"@id":"#a"},"superEvent":{"@id":"#a"},"@id":"#a"`),
		event(`,"eventSchedule":{"repeatFrequency":"P1D","startDate":"0001-01-01","endDate":"9999-12-31","byDay":["-9MO"],` +
			`"byMonthDay":[-40,40]}`),
		event(`,"endDate":"9999-12-31T23:59:59+14:00","duration":"P99999Y","location":{"geo":{"latitude":"NaN"}}`),
		`[{"@graph":{"@graph":[[[{"@type":[["Event"]],"name":{"@value":{"@value":"x"}},` +
			`"startDate":{"@list":["2026-12-05"]}}]]]}}`,
		`{"@context":{"a":"@id","b":"@type","c":{"@id":"@graph"}},"c":{"a":"_:x","b":"Event"}}`,
	} {
		f.Add(`<script type="application/ld+json">` + block + `</script>`)
	}
	for _, m := range mappings {
		f.Add(`<div itemscope itemtype="https://schema.org/Event" itemref="x"><b itemprop="name">Gig</b>` +
			`<time itemprop="startDate">5 December 2026</time>` + m.schema + `</div><p id="x">`)
		f.Add(`<div vocab="https://schema.org/" typeof="Event" resource="#1"><b property="name">Gig</b>` +
			`<time property="startDate">2026-12-05</time>` + asRDFa(m.schema) + `</div>`)
		f.Add(`<div class="h-event"><b class="p-name">Gig</b><time class="dt-start">2026-12-05</time>` + m.h + `</div>`)
		f.Add(`<div class="vevent" itemref="x"><b class="summary">Gig</b><abbr class="dtstart" title="2026-12-05"></abbr>` +
			m.classic + `</div><p id="x"><a class="include" href="#x">`)
	}
	f.Fuzz(func(t *testing.T, page string) {
		b := budget.New(t.Context())
		root, err := structured.Parse(b, page)
		if err != nil {
			return
		}
		at, found, notes := structured.Candidates(b, structured.Page{
			URL:      &url.URL{Scheme: "https", Host: "a.example", Path: "/programme"},
			Root:     root,
			Timezone: "Europe/London",
			Window:   timing.WindowAt(now),
		})
		result := candidate.Observe(b, at, found, notes)
		err = b.Err()
		must.True(t, err == nil || errors.Is(err, collect.ErrTooComplex), "%v", err)
		keys := map[string]bool{}
		for _, o := range result.Observations {
			assert.True(t, o.Key != "" && !keys[o.Key], "key %q is empty or there twice", o.Key)
			keys[o.Key] = true
			assert.True(t, o.Details.Title != "" && len(o.Details.Instances) != 0, "%q lacks a title or a date", o.Key)
			for _, instance := range o.Details.Instances {
				checkInstance(t, instance)
			}
		}
	})
}

func checkInstance(t *testing.T, instance happening.Instance) {
	t.Helper()
	assert.True(t, len(instance.Occurrences) != 0, "an instance has no occurrence")
	for i, c := range instance.Occurrences {
		if c.End != nil && c.End.Before(c.Start) {
			t.Errorf("an occurrence ends at %s, before its start at %s", c.End, c.Start)
		}
		if i > 0 && !c.Start.After(instance.Occurrences[i-1].Start) {
			t.Errorf("occurrences are out of order at %s", c.Start)
		}
	}
}

// pagesToRead returns the pages of the corpus, or without one those of this package.
func pagesToRead(b *testing.B) (pages []string, size int64) {
	b.Helper()
	for _, root := range []string{corpus, "testdata"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".html") {
				return nil //nolint:nilerr // without a corpus there is testdata
			}
			page, err := os.ReadFile(path)
			pages, size = append(pages, string(page)), size+int64(len(page))
			return err
		})
		must.OK(b, err)
		if len(pages) > 0 {
			break
		}
	}
	return pages, size
}

// BenchmarkExtract reads pages in all syntaxes, from text to observations, on one core.
func BenchmarkExtract(b *testing.B) {
	pages, size := pagesToRead(b)
	u := &url.URL{Scheme: "https", Host: "example.org", Path: "/page"}
	b.SetBytes(size)
	b.ReportAllocs()
	begin := budgettest.ProcessorTime()
	for b.Loop() {
		for _, page := range pages {
			budget := budget.New(b.Context())
			root := must.Get(structured.Parse(budget, page))(b)
			at, found, notes := structured.Candidates(budget, structured.Page{
				URL:      u,
				Root:     root,
				Timezone: "America/Chicago",
				Window:   timing.WindowAt(now),
			})
			candidate.Observe(budget, at, found, notes)
			must.OK(b, budget.Err())
		}
	}
	b.ReportMetric(float64(b.N*len(pages))/b.Elapsed().Seconds(), "pages/s")
	// processor time, independent of other load
	b.ReportMetric(float64(b.N*len(pages))/(budgettest.ProcessorTime()-begin).Seconds(), "pages/processor-s")
}
