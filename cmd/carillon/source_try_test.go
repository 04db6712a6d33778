package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item/shape"
	"carillon/command/collect"
)

const triedPage = `<html><head><title>Programme</title></head><body><h1>Programme</h1>
<div itemscope itemtype="https://schema.org/MusicEvent"><h2 itemprop="name">Jazz</h2>` +
	`<meta itemprop="startDate" content="2026-12-05T20:00"><span itemprop="location">Kajhallen</span></div>
<div itemscope itemtype="https://schema.org/MusicEvent"><h2 itemprop="name">Long ago</h2>` +
	`<meta itemprop="startDate" content="2024-12-05T20:00"></div>
<div itemscope itemtype="https://schema.org/MusicEvent"><h2 itemprop="name">Never</h2></div>`

const weeklyPage = `<script type="application/ld+json">` +
	`{"@type":"Event","name":"Quiz","eventSchedule":{"@type":"Schedule","byDay":"Wednesday","startTime":"19:00"}}</script>`

// pageServer serves pages by path. Anything else is not there.
func pageServer(t *testing.T, pages map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestSourceTry(t *testing.T) {
	t.Parallel()
	site := pageServer(t, map[string]string{"/programme": triedPage, "/weekly": weeklyPage, "/nothing": "<p>" +
		strings.Repeat("Welcome. ", 50)})
	try := func(args ...string) (int, string, string) {
		return runIn(t.Context(), "", append([]string{"source", "try"}, args...)...)
	}
	code, out, errors := try(site+"/programme", "--timezone", "Europe/Copenhagen", "--now", "2026-11-21T12:00:00Z",
		"--json", "--explain")
	if code != 0 || errors != "" {
		t.Fatalf("code %d, %s", code, errors)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	var jazz map[string]json.RawMessage
	if err := json.Unmarshal([]byte(lines[0]), &jazz); err != nil {
		t.Fatal(err)
	}
	want := `{"nextOccurrence":{"startDateTime":"2026-12-05T19:00:00.000000Z","endDateTime":null,"status":"scheduled"},` +
		`"occurrencesInRange":[{"startDateTime":"2026-12-05T19:00:00.000000Z","endDateTime":null,"status":"scheduled"}],` +
		`"totalOccurrences":1,"upcomingOccurrences":1}`
	if string(jazz["occurrence"]) != want {
		t.Errorf("occurrence %s", jazz["occurrence"])
	}
	if !strings.Contains(string(jazz["origins"]), `{"field":"title","page":"`+site+
		`/programme","syntax":"microdata","path":"MusicEvent[1].name","element":"html > body > div > `+
		`h2","text":"Jazz"}`) {
		t.Errorf("origins %s", jazz["origins"])
	}
	var last struct {
		Summary struct {
			Pages, Events, Occurrences, OutsideRange int
			LeftOut                                  []struct{ Code, Text string }
		}
	}
	if err := json.Unmarshal([]byte(lines[2]), &last); err != nil {
		t.Fatal(err)
	}
	if s := last.Summary; s.Pages != 1 || s.Events != 2 || s.Occurrences != 1 || s.OutsideRange != 1 ||
		len(s.LeftOut) != 1 || !strings.Contains(s.LeftOut[0].Text, `"Never"`) {
		t.Errorf("summary %+v", s)
	}
	if again, same, _ := try(site+"/programme", "--timezone", "Europe/Copenhagen", "--now", "2026-11-21T12:00:00Z",
		"--json", "--explain"); again != 0 || same != out {
		t.Errorf("the same page gives\n%s", same)
	}

	if code, out, _ = try(site+"/programme", "--now", "2026-11-21", "--from", "2024-01-01", "--to",
		"2025-01-01"); code != 0 || !strings.Contains(out, "1 occurrence in the range") ||
		!strings.Contains(out, "completed") {
		t.Errorf("code %d:\n%s", code, out)
	}
	if code, out, _ = try(site+"/nothing", "--json"); code != 0 ||
		!strings.HasPrefix(out, `{"summary":{"pages":1,"events":0,`) || strings.Count(out, "\n") != 1 {
		t.Errorf("nothing found gives code %d:\n%s", code, out)
	}
	if code, out, _ = try(site+"/weekly", "--from", "2019-03-01", "--to", "2019-04-01", "--now", "2026-11-21",
		"--json"); code != 0 || !strings.Contains(out, `"totalOccurrences":4`) {
		t.Errorf("a month long ago gives code %d:\n%s", code, out)
	}
	if code, out, _ = try(site+"/weekly", "--now", "2026-11-21"); code != 0 ||
		!strings.Contains(out, "59 occurrences in the range") {
		t.Errorf("the default range gives code %d:\n%s", code, out)
	}
	for name, args := range map[string][]string{
		"not there":      {site + "/nix"},
		"no address":     {"programme"},
		"no such zone":   {site + "/programme", "--timezone", "Nowhere"},
		"private":        {"http://10.0.0.1/"},
		"not there, too": {site + "/nix", "--json"},
	} {
		if code, out, errors := try(args...); code != 1 || out != "" || errors == "" {
			t.Errorf("%s gives code %d, %q, %q", name, code, out, errors)
		}
	}
}

// A tried happening has the members of an item of the current shape, except ids and the time of its addition.
func TestTriedIsAnItem(t *testing.T) {
	t.Parallel()
	start, n := time.Date(2026, 12, 5, 19, 0, 0, 0, time.UTC), 5
	d := happening.Details{
		Title:            "x",
		Description:      "x",
		ShortDescription: "x",
		Time:             happening.Time{Timezone: "UTC"},
		Location:         &happening.Location{DisplayAddress: "x"},
		Capacity:         &happening.Capacity{Total: &n},
		Organizer:        &happening.Organizer{Name: "x"},
		PrimaryImage:     "x",
		SupportingImages: []string{"x"},
		PrimaryURL:       "x",
		URLs:             []string{"x"},
		GeoLocations:     []happening.GeoLocation{happening.NewGeoLocation("x", happening.AtLocation, 50)},
		Instances: []happening.Instance{{ID: uuid.New(),
			Occurrences: []happening.Occurrence{{ID: uuid.New(), Start: start}}}},
	}
	members := func(data []byte, err error) []string {
		t.Helper()
		var object map[string]any
		if err == nil {
			err = json.Unmarshal(data, &object)
		}
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(object))
	}
	item, err := shape.Current(shape.Item{Details: d})
	want := members(append(item, `,"occurrence":{}}`...), err)
	want = slices.DeleteFunc(want, func(name string) bool {
		return name == "id" || name == "eventId" ||
			name == "addedToFeedAt"
	})
	var b strings.Builder
	err = printLine(&b, shownWindow{now: start, from: start, to: start}.event(collect.Observation{Details: d}))
	if got := members([]byte(b.String()), err); !slices.Equal(got, want) {
		t.Errorf("members %q, want %q", got, want)
	}
}
