package structured_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/command/collect/budget"
	"carillon/command/collect/budget/budgettest"
	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
)

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
		if err != nil {
			b.Fatal(err)
		}
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
			root, err := structured.Parse(budget, page)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := structured.Read(budget, structured.Page{
				URL:      u,
				Root:     root,
				Timezone: "America/Chicago",
				Window:   timing.WindowAt(now),
			}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N*len(pages))/b.Elapsed().Seconds(), "pages/s")
	// processor time, independent of other load
	b.ReportMetric(float64(b.N*len(pages))/(budgettest.ProcessorTime()-begin).Seconds(), "pages/processor-s")
}
