package match_test

import (
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/match"
	"carillon/eventstore/storetest/must"
)

// corpus is the path of real pages and calendars beside the project. Optional.
var corpus = filepath.Join("..", "..", "..", "..", "shared", "corpus")

// corpusTime precedes nearly all events of the corpus, so that few are over.
var corpusTime = time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)

func observed(t *testing.T, name string) []collect.Observation {
	t.Helper()
	data := must.Get(os.ReadFile(name))(t)
	at := &url.URL{Scheme: "https", Host: "example.org", Path: "/" + filepath.Base(name)}
	window := timing.Window{From: corpusTime, To: corpusTime.AddDate(25, 0, 0)}
	b := budget.New(t.Context())
	observe := func(page candidate.Page, found []*candidate.Candidate, notes collect.Notes) []collect.Observation {
		return candidate.Observe(b, page, found, notes).Observations
	}
	if strings.HasSuffix(name, ".ics") {
		return observe(calendar.Candidates(b, calendar.Page{
			URL:      at,
			Text:     string(calendar.Unfold(data)),
			Timezone: "Europe/Berlin",
			Window:   window,
		}))
	}
	root := must.Get(structured.Parse(b, string(data)))(t)
	return observe(structured.Candidates(b, structured.Page{
		URL:      at,
		Root:     root,
		Timezone: "America/Chicago",
		Window:   window,
	}))
}

// bare returns an observation without a key.
func bare(d happening.Details) labelledEvent {
	return labelledEvent{line: d.Title, Subject: match.Of(d, nil, corpusTime)}
}

// retold returns another source's version: with a remark, the doors as start, and no coordinates.
func retold(d happening.Details) happening.Details {
	d.Title = "SOLD OUT: " + d.Title
	if d.Location != nil {
		where := *d.Location
		where.Coordinates = nil
		d.Location = &where
	}
	var all []happening.Instance
	for _, instance := range d.Instances {
		var occurrences []happening.Occurrence
		for _, o := range instance.Occurrences {
			if !o.AllDay {
				o.Start = o.Start.Add(-15 * time.Minute)
			}
			occurrences = append(occurrences, o)
		}
		instance.Occurrences = occurrences
		all = append(all, instance)
	}
	d.Instances = all
	return d
}

func TestPairsOfTheCorpus(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob(filepath.Join(corpus, "schemaorg", "*.jsonld.html"))
	if err != nil || len(documents) == 0 {
		t.Skip("the corpus isn't here")
	}
	var f figures
	pages := 0 // wrong pairs, if each event had a page
	check := func(what string, a, b labelledEvent, same bool) {
		v := compared(a, b)
		f.add(same, v.Same)
		if v.Same != same {
			t.Logf("%s: %s %.2f, want %t: %q and %q", what, v.Reason, v.Score, same, a.line, b.line)
		}
	}
	apart := func(what string, shown []collect.Observation) {
		subjects := make([]labelledEvent, len(shown))
		for i, o := range shown {
			subjects[i] = bare(o.Details)
			for j, other := range shown[:i] {
				if twice(o, other) {
					continue
				}
				check(what, subjects[j], subjects[i], false)
				if v := match.Compare(subjects[j].Subject, subjects[i].Subject, match.OtherPage); v.Same {
					t.Logf("%s, two pages: %s %.2f: %q and %q", what, v.Reason, v.Score, subjects[j].line, subjects[i].line)
					pages++
				}
			}
		}
	}
	var all []collect.Observation
	for _, name := range documents {
		whole := observed(t, name)
		all = append(all, whole...)
		for _, syntax := range []string{".microdata.html", ".rdfa.html"} {
			other := strings.TrimSuffix(name, ".jsonld.html") + syntax
			if _, err := os.Stat(other); err != nil {
				continue
			}
			for i, o := range observed(t, other) {
				if i < len(whole) {
					check(filepath.Base(other), bare(whole[i].Details), bare(o.Details), true)
				}
			}
		}
	}
	calendars := must.Get(filepath.Glob(filepath.Join(corpus, "*", "*.ics")))(t)
	more := must.Get(filepath.Glob(filepath.Join(corpus, "city-scrapers", "chi", "*.*")))(t)
	for _, name := range append(calendars, more...) {
		if strings.HasSuffix(name, ".json") {
			continue
		}
		shown := observed(t, name)
		for _, o := range shown {
			if o.Details.Location != nil {
				check(filepath.Base(name), bare(o.Details), bare(retold(o.Details)), true)
			}
		}
		apart(filepath.Base(name), shown)
	}
	apart("schemaorg", all)
	t.Logf("%d pairs, %d the same: precision %.4f, recall %.4f", f.pairs, f.same, f.precision(), f.recall())
	if f.pairs < 1000 || f.precision() < 0.992 || math.Round(1000*f.recall()) < 970 || pages > 2 {
		t.Errorf("%d pairs, precision %.4f, recall %.4f, %d of two pages; want 1000, 0.992, 0.97, 2", f.pairs, f.precision(),
			f.recall(), pages)
	}
}

// twice reports whether two events of the corpus are indistinguishable.
func twice(a, b collect.Observation) bool {
	return a.Key == b.Key || a.Details.Title == b.Details.Title && len(a.Details.Instances) > 0 &&
		len(b.Details.Instances) > 0 &&
		a.Details.Instances[0].Occurrences[0].Start.Equal(b.Details.Instances[0].Occurrences[0].Start)
}
