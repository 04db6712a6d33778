package structured_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/identity"
)

// corpus is the path of real pages with the results of another extractor, beside the project. Optional.
var corpus = filepath.Join("..", "..", "..", "..", "..", "shared", "corpus")

// broadcast is a page of the corpus whose only event is that of a work, at no place: none for us.
const broadcast = "eg-0444"

// oracleEvent is a JSON-LD event as the other extractor returns it.
type oracleEvent map[string]any

func (e oracleEvent) text(key string) string {
	switch v := e[key].(type) {
	case string:
		return v
	case []any:
		if len(v) > 0 {
			if s, ok := v[0].(string); ok {
				return s
			}
		}
	}
	return ""
}

func oracle(t *testing.T) map[string][]oracleEvent {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, "oracle-extruct.json"))
	if err != nil {
		t.Skip("the corpus isn't here")
	}
	var all struct {
		Files map[string]map[string]struct{ Events []oracleEvent }
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	found := map[string][]oracleEvent{}
	for file, syntaxes := range all.Files {
		if events := syntaxes["json-ld"].Events; len(events) > 0 {
			found[file] = events
		}
	}
	return found
}

// venue returns the name of the oracle's place, if it has one.
func venue(e oracleEvent) string {
	where, ok := e["location"].(map[string]any)
	if !ok || where["@type"] != "Place" {
		return ""
	}
	return markup.Plain(oracleEvent(where).text("name"))
}

// startsAt reports whether an observation has an occurrence at the start of the oracle: the instant if it has an
// offset, else the local day.
func startsAt(o collect.Observation, start string) bool {
	loc, err := time.LoadLocation(o.Details.Time.Timezone)
	if err != nil {
		return false
	}
	var y, m, d int
	if _, err := fmt.Sscanf(start, "%d-%d-%d", &y, &m, &d); err != nil {
		return false
	}
	instant := time.Time{}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, start); err == nil {
			instant = t
		}
	}
	for _, instance := range o.Details.Instances {
		for _, c := range instance.Occurrences {
			local := c.Start.In(loc)
			if !instant.IsZero() && c.Start.Equal(instant) || instant.IsZero() && local.Year() == y && int(local.Month()) == m &&
				local.Day() == d {
				return true
			}
		}
	}
	return false
}

// Every event that the oracle finds with a name and a date has to be observed, with its title, start, status, venue
// and link.
func TestCorpus(t *testing.T) {
	t.Parallel()
	statuses := map[string]happening.Status{
		"EventCancelled": happening.Cancelled, "EventRescheduled": happening.Rescheduled,
		"EventPostponed": happening.Postponed,
	}
	compared := 0
	for file, events := range oracle(t) {
		if strings.Contains(file, broadcast) {
			continue
		}
		page, err := os.ReadFile(filepath.Join(corpus, filepath.FromSlash(file)))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		address := "https://example.org/" + (&url.URL{Path: file}).EscapedPath()
		observations := read(t, address, "America/Chicago", string(page)).Observations
		for _, e := range events {
			name, start := e.text("name"), e.text("startDate")
			if name == "" || start == "" {
				continue
			}
			compared++
			found := false
			for _, o := range observations {
				if identity.Words(o.Details.Title) != identity.Words(markup.Plain(name)) || !startsAt(o, start) {
					continue
				}
				found = true
				status := statuses[e.text("eventStatus")[strings.LastIndex(e.text("eventStatus"), "/")+1:]]
				if got := o.Details.Instances[0].Status; status != "" && got != status {
					t.Errorf("%s: %q is %s, want %s", file, name, got, status)
				}
				if want := venue(e); want != "" && (o.Details.Location == nil || o.Details.Location.Venue == nil ||
					o.Details.Location.Venue.Name != want) {
					t.Errorf("%s: %q is at %+v, want %v", file, name, o.Details.Location, want)
				}
			}
			if !found {
				t.Errorf("%s: %q on %s is not observed; seen:\n%s", file, name, start, outline(observations))
			}
		}
	}
	if compared < 60 {
		t.Errorf("only %d events were compared", compared)
	}
	t.Logf("%d events compared", compared)
}

// The parsed JSON-LD of each example leads to the same observations as the page itself.
func TestCorpusExpected(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(corpus, "schemaorg", "*.jsonld.html"))
	if err != nil || len(pages) == 0 {
		t.Skip("the corpus isn't here")
	}
	for _, name := range pages {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		expected, err := os.ReadFile(strings.TrimSuffix(name, ".jsonld.html") + ".expected.json")
		if err != nil {
			t.Fatal(err)
		}
		const address = "https://example.org/page"
		title := strings.TrimSuffix(filepath.Base(name), ".jsonld.html")
		got := read(t, address, "", string(page))
		want := read(t, address, "", `<title>`+title+`</title><script type="application/ld+json">`+string(expected)+
			`</script>`)
		compare(t, outline(got.Observations), outline(want.Observations))
		for i := range want.Observations {
			if !got.Observations[i].Details.Equal(want.Observations[i].Details) {
				t.Errorf("%s: %s differs", title, got.Observations[i].Key)
			}
		}
	}
}
