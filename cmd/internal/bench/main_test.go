//go:build nightly

package bench

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"carillon/cmd/internal/suite/children"
)

func TestMain(m *testing.M) {
	children.Main()
	code := m.Run()
	results.print()
	os.Exit(code)
}

// table collects the figures of a run.
type table struct {
	mu   sync.Mutex
	rows []row
}

type row struct {
	benchmark, metric string
	value             float64
	limit             string
}

var results table

func (t *table) add(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := func(other row) bool { return other.benchmark == r.benchmark && other.metric == r.metric }
	t.rows = append(slices.DeleteFunc(t.rows, same), r)
}

func (t *table) print() {
	if len(t.rows) == 0 {
		return
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "BENCHMARK\tMETRIC\tVALUE\tLIMIT")
	for _, r := range t.rows {
		_, _ = fmt.Fprintf(out, "%s\t%s\t%.4g\t%s\n", r.benchmark, r.metric, r.value, r.limit)
	}
	_ = out.Flush()
}

// report adds a figure to the table.
func report(b testing.TB, metric string, value float64) { reportLimit(b, metric, value, "") }

// reportAtMost adds a figure that must not exceed a limit.
func reportAtMost(b testing.TB, metric string, value, limit float64) {
	reportLimit(b, metric, value, compared("≤", limit, value <= limit))
}

// reportAtLeast adds a figure that must reach a limit.
func reportAtLeast(b testing.TB, metric string, value, limit float64) {
	reportLimit(b, metric, value, compared("≥", limit, value >= limit))
}

func compared(sign string, limit float64, held bool) string {
	if held {
		return fmt.Sprintf("%s %g", sign, limit)
	}
	return fmt.Sprintf("%s %g MISSED", sign, limit)
}

func reportLimit(b testing.TB, metric string, value float64, limit string) {
	if b, ok := b.(*testing.B); ok {
		b.ReportMetric(0, "ns/op") // it would include the start of the server
	}
	results.add(row{strings.TrimPrefix(b.Name(), "Benchmark"), metric, value, limit})
}

// size returns the number that a variable of the environment holds, or a default.
func size(variable string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return otherwise
	}
	return cmp.Or(n, otherwise)
}
