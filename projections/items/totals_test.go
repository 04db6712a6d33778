package items_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/query"
)

// The total is what a walk over all pages comes to, wherever the range lies, and while it moves and the feed changes.
func TestTotalsAreExact(t *testing.T) {
	t.Parallel()
	f := open(t)
	var starts [][]time.Duration
	const lasting = 2 * time.Hour // of each that on makes
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(0, 3).Draw(t, "new items") {
			item := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(-10, 40).Draw(t, "hour")) * time.Hour
			}), 1, 4).Draw(t, "starts")
			starts = append(starts, item)
			f.add(uuid.New(), on("x", item...))
		}
		f.Project()
		since := time.Duration(rapid.IntRange(-12, 40).Draw(t, "since")) * 30 * time.Minute
		length := time.Duration(rapid.IntRange(1, 40).Draw(t, "length")) * 30 * time.Minute
		// the range moves with the clock, by less than an hour in all
		for step := range rapid.IntRange(1, 6).Draw(t, "steps") {
			from := since + time.Duration(step)*7*time.Minute
			want := 0
			for _, item := range starts {
				for _, start := range item {
					if start+lasting > from && start <= from+length {
						want++
						break
					}
				}
			}
			in := query.ItemsQuery{
				Since:   now.Add(from),
				Until:   now.Add(from + length),
				OrderBy: query.OrderByOccurrence,
				Limit:   1,
				Now:     now,
			}
			page, err := f.Items(f.t.Context(), org, f.feed, in)
			if err != nil {
				t.Fatal(err)
			}
			if page.Total != want {
				t.Fatalf("total %d in [%s, %s], want %d", page.Total, from, from+length, want)
			}
		}
	})
}
