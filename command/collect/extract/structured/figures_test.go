package structured_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// figures count the results of a group of the corpus in one syntax.
type figures struct {
	// Expected events have a name and a date; Found ones are observed.
	Expected, Found int
	// Right, Wrong and Missing count the fields of those.
	Right, Wrong, Missing int
}

// wanted is an event from another extractor: texts by our names of fields.
type wanted map[string]string

// The figures of each group and syntax must not fall.
func TestFigures(t *testing.T) {
	t.Parallel()
	floor := map[string]figures{ // expected, found; right, wrong, missing
		"city-scrapers json-ld":     {10, 10, 50, 0, 6}, // the page's address as image
		"city-scrapers microdata":   {13, 13, 81, 0, 0},
		"extruct json-ld":           {58, 58, 246, 1, 0}, // two of one title on one day
		"microformats hcalendar":    {6, 6, 18, 0, 1},    // "2013-034" as the end of three starts
		"microformats microformats": {8, 8, 22, 0, 1},    // the same
		"schemaorg json-ld":         {16, 16, 69, 1, 0},  // a place that is a link and an address
		"schemaorg microdata":       {8, 8, 29, 1, 0},    // the same
		"schemaorg rdfa":            {9, 9, 31, 1, 0},    // "Sun 31 January 2016" beside a content
	}
	got := map[string]figures{}
	for key, file := range expectations(t) {
		group, syntax, _ := strings.Cut(key, " ")
		for name, events := range file {
			page := must.Get(os.ReadFile(filepath.Join(corpus, filepath.FromSlash(name))))(t)
			text := string(page)
			if syntax == string(collect.Microdata) {
				text = scripts.ReplaceAllString(text, "") // JSON-LD alone doesn't count
			}
			f := got[key]
			f.add(t, group+" "+name, read(t, "https://example.org/page", "America/Chicago", text).Observations, events)
			got[key] = f
		}
	}
	for key, want := range floor {
		f := got[key]
		t.Logf("%-28s %3d expected %3d found %4d fields right %2d wrong %2d missing", key, f.Expected, f.Found, f.Right,
			f.Wrong, f.Missing)
		assert.True(t, f.Expected >= want.Expected && f.Found >= want.Found && f.Right >= want.Right &&
			f.Wrong <= want.Wrong && f.Missing <= want.Missing, "%s: %+v, want %+v", key, f, want)
	}
}

var scripts = regexp.MustCompile(`(?is)<script[^>]*ld\+json.*?</script>`)

func (f *figures) add(t *testing.T, where string, observations []collect.Observation, events []wanted) {
	t.Helper()
	for _, e := range events {
		start, err := timing.Parse(e["start"], false)
		if e["title"] == "" || err != nil {
			continue
		}
		if !start.HasTime {
			e["start"] = start.Wall.Format(time.DateOnly)
		}
		if !strings.Contains(e["status"], "Event") {
			delete(e, "status") // "on-schedule" is not in the vocabulary
		}
		if e["image"] == e["url"] {
			delete(e, "image")
		}
		f.Expected++
		var found *collect.Observation
		for i, o := range observations {
			if identity.Words(o.Details.Title) == identity.Words(markup.Plain(e["title"])) && startsAt(o, e["start"]) {
				found = &observations[i]
				break
			}
		}
		if found == nil {
			t.Logf("%s: %q on %s is not found", where, e["title"], e["start"])
			continue
		}
		f.Found++
		for field, want := range e {
			got := shownAs(*found, field)
			switch {
			case want == "":
			case agrees(*found, field, want, got):
				f.Right++
			case got == "":
				t.Logf("%s: %q has no %s, want %.80q", where, e["title"], field, want)
				f.Missing++
			default:
				t.Logf("%s: %q has %s %.80q, want %.80q", where, e["title"], field, got, want)
				f.Wrong++
			}
		}
	}
}

// shownAs returns a field of an observation as text.
func shownAs(o collect.Observation, field string) string {
	d := o.Details
	switch field {
	case "title":
		return d.Title
	case "description":
		return markup.Plain(d.Description)
	case "url":
		return strings.Join(d.URLs, " ")
	case "image":
		return strings.Join(append([]string{d.PrimaryImage}, d.SupportingImages...), " ")
	case "status":
		return string(d.Instances[0].Status)
	case "location":
		if d.Location == nil {
			return ""
		}
		text := d.Location.DisplayAddress
		if d.Location.Online != nil {
			text += " " + d.Location.Online.URL
		}
		return text
	case "end":
		var ends []string
		for _, instance := range d.Instances {
			for _, c := range instance.Occurrences {
				if c.End != nil {
					ends = append(ends, c.End.Format("2006-01-02T15:04"))
				}
			}
		}
		return strings.Join(ends, " ")
	}
	return d.Time.DisplayText
}

func agrees(o collect.Observation, field, want, got string) bool {
	switch field {
	case "start":
		return true // found by it
	case "end":
		return endsAt(o, want)
	case "status":
		return strings.Contains(strings.ToLower(strings.ReplaceAll(want, "Canceled", "Cancelled")), got)
	case "url", "image":
		u, err := url.Parse(strings.TrimSpace(want))
		return err == nil && strings.Contains(got, identity.Clean(u))
	case "description":
		want = markup.Plain(markup.HTML(want))
	}
	run := func(text string) string { return strings.ReplaceAll(identity.Words(text), " ", "") }
	return strings.Contains(run(got), run(markup.Plain(want)))
}

// endsAt reports whether the last occurrence ends when the other extractor's does: at the instant, or on the local
// day.
func endsAt(o collect.Observation, end string) bool {
	for _, instance := range o.Details.Instances {
		last := instance.Occurrences[len(instance.Occurrences)-1]
		if last.End == nil {
			last.End = &last.Start
		}
		moved := o
		moved.Details.Instances = nil
		for _, minutes := range []int{0, -1} { // a day ends at the midnight that begins the next
			c := last
			c.Start = last.End.Add(time.Duration(minutes) * time.Minute)
			i := instance
			i.Occurrences = append(i.Occurrences[:0:0], c)
			moved.Details.Instances = append(moved.Details.Instances, i)
		}
		if startsAt(moved, end) {
			return true
		}
	}
	return false
}

// expectations returns the wanted events by group and syntax, and by file.
func expectations(t *testing.T) map[string]map[string][]wanted {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, "oracle-extruct.json"))
	if err != nil {
		t.Skip("the corpus isn't here")
	}
	var all struct {
		Files map[string]map[string]struct{ Events []any }
	}
	must.OK(t, json.Unmarshal(data, &all))
	found := map[string]map[string][]wanted{}
	add := func(syntax, name string, e wanted) {
		group, _, _ := strings.Cut(name, "/")
		key := group + " " + syntax
		if found[key] == nil {
			found[key] = map[string][]wanted{}
		}
		found[key][name] = append(found[key][name], e)
	}
	for name, syntaxes := range all.Files {
		if strings.Contains(name, broadcast) {
			continue
		}
		for syntax, s := range syntaxes {
			for _, e := range s.Events {
				add(syntax, name, schemaEvent(e))
			}
		}
	}
	must.OK(t, filepath.WalkDir(filepath.Join(corpus, "microformats"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".json") {
			return err
		}
		name, err := filepath.Rel(corpus, strings.TrimSuffix(path, ".json")+".html")
		if err != nil {
			return err
		}
		syntax := "microformats"
		if strings.Contains(name, "microformats-v1") {
			syntax = "hcalendar"
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var parsed any
		if err := json.Unmarshal(data, &parsed); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, e := range mfEvents(parsed) {
			add(syntax, filepath.ToSlash(name), e)
		}
		return nil
	}))
	return found
}

// corpus is the path of real pages with the results of another extractor, beside the project. Optional.
var corpus = filepath.Join("..", "..", "..", "..", "..", "shared", "corpus")

// broadcast is a page of the corpus whose only event is that of a work, at no place: none for us.
const broadcast = "eg-0444"

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

// schemaTerms are the terms of schema.org by our names of fields.
var schemaTerms = map[string]string{
	"title": "name", "start": "startDate", "end": "endDate", "description": "description", "url": "url",
	"location": "location",
	"status":   "eventStatus", "image": "image",
}

// mfTerms are those of microformats.
var mfTerms = map[string]string{
	"title": "name", "start": "start", "end": "end", "description": "description", "url": "url", "location": "location",
	"image": "photo",
}

// eventOf reads properties by their terms, with or without schema.org before them.
func eventOf(props map[string]any, terms map[string]string) wanted {
	w := wanted{}
	for field, term := range terms {
		for _, name := range []string{term, "https://schema.org/" + term, "http://schema.org/" + term} {
			if v, ok := props[name]; ok {
				w[field] = textIn(v)
			}
		}
	}
	return w
}

// schemaEvent reads an event of extruct, in any of the shapes for its syntaxes.
func schemaEvent(e any) wanted {
	props, _ := e.(map[string]any)
	if inner, ok := props["properties"].(map[string]any); ok {
		props = inner
	}
	return eventOf(props, schemaTerms)
}

// textIn returns the text of a value, or the name of a thing.
func textIn(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, e := range v {
			if text := textIn(e); text != "" {
				return text
			}
		}
	case map[string]any:
		value := v["value"] // of microformats
		if inner, ok := v["properties"].(map[string]any); ok {
			v = inner
		}
		for _, key := range []string{"@value", "name", "https://schema.org/name", "http://schema.org/name", "url",
			"addressLocality", "street-address", "locality"} {
			if text := textIn(v[key]); text != "" {
				return text
			}
		}
		if id, ok := v["@id"].(string); ok && !strings.HasPrefix(id, "_:") {
			return id
		}
		return textIn(value)
	}
	return ""
}

// mfEvents returns the events of canonical microformats, at any depth.
func mfEvents(v any) []wanted {
	var found []wanted
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			found = append(found, mfEvents(e)...)
		}
	case map[string]any:
		types, _ := v["type"].([]any)
		props, _ := v["properties"].(map[string]any)
		if slices.Contains(types, any("h-event")) {
			found = append(found, eventOf(props, mfTerms))
		}
		for _, inner := range v {
			found = append(found, mfEvents(inner)...)
		}
	}
	return found
}
