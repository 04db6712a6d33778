package calendar

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/must"
)

// corpus is the path of real calendars with the results of another expander, beside the project. Optional.
var corpus = filepath.Join("..", "..", "..", "..", "..", "shared", "corpus")

type oracleFile struct {
	From, To    string
	Count       int
	Occurrences [][]*string
	Agrees      *bool `json:"agrees_with_2_0_1"`
}

func oracle(t *testing.T) map[string]oracleFile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, "oracle-ics.json"))
	if err != nil {
		t.Skip("the corpus isn't here")
	}
	var all struct{ Files map[string]oracleFile }
	must.OK(t, json.Unmarshal(data, &all))
	return all.Files
}

func dateOnly(t *testing.T, text string) time.Time {
	t.Helper()
	at := must.Get(time.Parse(time.DateOnly, text))(t)
	return at
}

// starts returns the starts of a calendar's events in the form of the oracle.
func starts(t *testing.T, name string, window timing.Window) []string {
	t.Helper()
	body := must.Get(os.ReadFile(filepath.Join(corpus, filepath.FromSlash(name))))(t)
	var notes collect.Notes
	// The oracle's window consists of wall clocks.
	f := &file{budget: budget.New(t.Context()), notes: &notes, window: timing.Window{From: window.From.AddDate(0, 0, -1),
		To: window.To}}
	f.parse(strings.ToValidUTF8(strings.TrimPrefix(string(Unfold(body)), "\ufeff"), "\ufffd"))
	all := f.series()
	f.expandAll(all)
	var found []string
	for _, s := range all {
		for _, h := range s.holdings {
			if h.Status == happening.Cancelled {
				continue
			}
			start := h.When.Start
			if !start.Wall.Before(window.To) {
				continue // single events are shown beyond the window
			}
			switch {
			case !start.HasTime:
				found = append(found, start.Wall.Format("2006-01-02"))
			case start.HasOffset:
				found = append(found, start.Wall.Add(-time.Duration(start.Offset)*time.Second).Format("2006-01-02T15:04:05Z"))
			case s.zone.floats:
				found = append(found, start.Wall.Format("2006-01-02T15:04:05"))
			default:
				found = append(found, timing.OnWall(start.Wall, s.zone.loc).UTC().Format("2006-01-02T15:04:05Z"))
			}
		}
	}
	must.OK(t, f.budget.Err())
	slices.Sort(found)
	return found
}

// unlike lists the files whose results differ from the oracle, with the reasons.
var unlike = map[string]string{
	"recurring-ical-events/issue_75_range_parameter.ics": "UNTIL is a date, which RFC 5545 has bound in an inclusive " +
		"manner; the oracle ends with its midnight",
	"recurring-ical-events/issue_28_rrule_with_UTC_endinginZ.ics": "UNTIL of whole days is the instant of a midnight in " +
		"London, which is that of the last date; the oracle reads it in UTC",
}

func TestOracle(t *testing.T) {
	t.Parallel()
	agreed, others, events := 0, 0, 0
	for name, want := range oracle(t) {
		if unlike[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got := starts(t, name, timing.Window{From: dateOnly(t, want.From), To: dateOnly(t, want.To)})
			var expected []string
			for _, o := range want.Occurrences {
				if o[4] != nil && *o[4] == "CANCELLED" {
					continue
				}
				start := *o[0]
				if at, err := time.Parse(time.RFC3339, start); err == nil {
					start = at.UTC().Format("2006-01-02T15:04:05Z")
				}
				expected = append(expected, start)
			}
			slices.Sort(expected)
			if want.Count > len(want.Occurrences) {
				got = got[:min(len(got), len(expected))]
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
				return
			}
			events += len(got)
			if want.Agrees != nil && *want.Agrees {
				agreed++
			} else {
				others++
			}
		})
	}
	t.Logf("%d files that both releases agree on and %d others give the same %d starts", agreed, others, events)
}
