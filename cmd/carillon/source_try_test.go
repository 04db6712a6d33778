package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item/shape"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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

// jazzPage is a page with a concert in three days.
func jazzPage() string {
	return fmt.Sprintf(`<script type="application/ld+json">{"@type":"Event","name":"Jazz","startDate":%q}</script>`,
		time.Now().Add(72*time.Hour).UTC().Format(time.RFC3339))
}

func TestSourceTry(t *testing.T) {
	t.Parallel()
	site := pageServer(t, map[string]string{
		"/programme": triedPage, "/weekly": weeklyPage, "/nothing": "<p>" + strings.Repeat("Welcome. ", 50),
		"/sitemap.xml": `<urlset><url><loc>/programme</loc></url><url><loc>/weekly</loc></url></urlset>`,
		"/list":        `<a href="/programme">x</a><a href="/weekly">y</a><a href="/gone">z</a>`,
	})
	try := func(args ...string) (int, string, string) {
		return runIn(t.Context(), "", append([]string{"source", "try"}, args...)...)
	}
	code, out, errors := try(site+"/programme", "--timezone", "Europe/Copenhagen", "--now", "2026-11-21T12:00:00Z",
		"--json", "--explain")
	must.True(t, code == 0 && errors == "", "code %d, %s", code, errors)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	must.Equal(t, len(lines), 3, "lines: %s", out)
	var jazz map[string]json.RawMessage
	must.OK(t, json.Unmarshal([]byte(lines[0]), &jazz))
	want := `{"nextOccurrence":{"startDateTime":"2026-12-05T19:00:00.000000Z","endDateTime":null,"status":"scheduled"},` +
		`"occurrencesInRange":[{"startDateTime":"2026-12-05T19:00:00.000000Z","endDateTime":null,"status":"scheduled"}],` +
		`"totalOccurrences":1,"upcomingOccurrences":1}`
	assert.True(t, string(jazz["occurrence"]) == want, "occurrence %s", jazz["occurrence"])
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
	must.OK(t, json.Unmarshal([]byte(lines[2]), &last))
	s := last.Summary
	assert.True(t, s.Pages == 1 && s.Events == 2 && s.Occurrences == 1 && s.OutsideRange == 1 && len(s.LeftOut) == 1 &&
		strings.Contains(s.LeftOut[0].Text, `"Never"`), "summary %+v", s)
	if again, same, _ := try(site+"/programme", "--timezone", "Europe/Copenhagen", "--now", "2026-11-21T12:00:00Z",
		"--json", "--explain"); again != 0 || same != out {
		t.Errorf("the same page gives\n%s", same)
	}

	for args, want := range map[string]string{
		"/programme --from 2024-01-01 --to 2025-01-01": `(?s)completed.*1 occurrence in the range`,
		"/nothing --json": `^{"summary":{"pages":1,"events":0,.*}}\n$`,
		"/weekly --from 2019-03-01 --to 2019-04-01 --json": `"totalOccurrences":4`,
		"/weekly":                              `59 occurrences in the range`,
		"/ --type sitemap":                     `(?s)Jazz.*Quiz.*3 pages, 3 events`,
		"/list --type siteIndexPage":           `(?s)Jazz.*Quiz.*/gone can't be read: `,
		"/list --type siteIndexPage --pages 2": `2 pages were read, at least 2 more were not`,
	} {
		code, out, errors := try(append(strings.Fields(site+args), "--now", "2026-11-21")...)
		assert.True(t, code == 0 && regexp.MustCompile(want).MatchString(out),
			"%s gives code %d, and no %s:\n%s%s", args, code, want, out, errors)
	}
	for _, args := range []string{
		site + "/nix", site + "/nix --json", "programme", site + "/programme --timezone Nowhere", "http://10.0.0.1/",
		site + "/nix --type siteIndexPage", site + "/programme --pages 0",
	} {
		code, out, errors := try(strings.Fields(args)...)
		assert.True(t, code == 1 && out == "" && errors != "", "%s gives code %d, %q, %q", args, code, out, errors)
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
		must.OK(t, err)
		return slices.Sorted(maps.Keys(object))
	}
	item, err := shape.Current(shape.Item{Details: d})
	want := members(append(item, `,"occurrence":{}}`...), err)
	want = slices.DeleteFunc(want, func(name string) bool {
		return name == "id" || name == "eventId" || name == "addedToFeedAt"
	})
	var b strings.Builder
	err = printLine(&b, shownWindow{now: start, from: start, to: start}.event(collect.Observation{Details: d}))
	assert.Slices(t, members([]byte(b.String()), err), want, "members")
}

// TestSourceTry_failureIsNamed tries what can't be read: the error names the cause and, if there is one, the remedy.
func TestSourceTry_failureIsNamed(t *testing.T) {
	t.Parallel()
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<p>"+strings.Repeat("Welcome. ", 50))
	}))
	site.Config.ErrorLog = log.New(io.Discard, "", 0)
	site.StartTLS()
	defer site.Close()
	fails(t, 1, `connection failed: TLS: the certificate of "O=Acme Co" (issuer "O=Acme Co", `, "source", "try", site.URL)
	fails(t, 1, "address 10.0.0.1 is private or reserved", "source", "try", "http://10.0.0.1/")
	file := filepath.Join(t.TempDir(), "ca.pem")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	must.OK(t, os.WriteFile(file, authority, 0o600))
	prints(t, "", "source", "try", site.URL, "--egress-ca", file)
}

const accountPosts = `{"data":[
	{"id":"1_1","message":"Open rehearsal on Saturday 5 December 2026 at 14:00, Havnegade 1. Free entry.",
		"created_time":"2026-11-19T08:12:01+0000","permalink_url":"https://www.facebook.com/1/posts/1",
		"from":{"id":"1","name":"Kajhallen"}},
	{"id":"1_2","message":"Applications for the residency close on 5 December at midnight.",
		"created_time":"2026-11-18T08:12:01+0000","permalink_url":"https://www.facebook.com/1/posts/2",
		"from":{"id":"1","name":"Kajhallen"}}]}`

// An account is tried as a page is: the events to collect, the words that gave them, and the posts without any.
func TestSourceTryAccount(t *testing.T) {
	t.Parallel()
	const secret = "EAAB-hunter2"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.Header.Get("Authorization"), "hunter2-old"):
			w.WriteHeader(http.StatusUnauthorized)
		case r.FormValue("access_token") != secret:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Invalid OAuth access token: `+
				r.FormValue("access_token")+`","code":190}}`)
		case r.URL.Path == "/kajhallen/posts":
			_, _ = io.WriteString(w, accountPosts)
		default:
			_, _ = io.WriteString(w, `{"data":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	try := func(args ...string) (int, string, string) {
		return runIn(t.Context(), "", append([]string{"source", "try", "@kajhallen", "--now", "2026-11-20",
			"--timezone", "Europe/Copenhagen", "--platform-url", server.URL}, args...)...)
	}
	for args, want := range map[string][]string{
		"--type facebook --platform-tokens facebook=" + secret + " --json": {
			`{"title":"Open rehearsal"`, `"startDateTime":"2026-12-05T13:00:00.000000Z"`, `"events":1`,
		},
		"--type facebook --platform-tokens facebook=" + secret + " --explain": {
			"Saturday 5 December 2026 at 14:00 (a time, a weekday, a year",
			`passed over: "5 December", it is a deadline: "applications"`, "https://www.facebook.com/1/posts/2",
		},
		"--type facebook --platform-tokens facebook=EAAB-hunter2-old":                     {"Facebook refuses the token in"},
		"--type instagram --platform-tokens instagram:17841405309211844=EAAB-hunter2-old": {"Instagram refuses the token"},
		"--type tiktok --platform-tokens tiktok=EAAB-hunter2-old":                         {"TikTok refuses the token in"},
		"--type twitter --platform-tokens twitter=EAAB-hunter2-old":                       {"refuses the token in"},
		"--type facebook":  {"add facebook=TOKEN to CARILLON_PLATFORM_TOKENS"},
		"--type instagram": {"add instagram:NUMBER=TOKEN"},
		"--type tiktok":    {"tiktok:ACCOUNT=TOKEN"},
		"--type twitter":   {"twitter=TOKEN"},
		"":                 {"name its platform with --type"},
	} {
		code, out, errs := try(strings.Fields(args)...)
		if said := out + errs; (code == 0) != (len(want) > 1) || strings.Contains(said, "hunter2") {
			t.Errorf("%q: code %d, or the token shows:\n%s", args, code, said)
		}
		for _, text := range want {
			assert.True(t, strings.Contains(out+errs, text), "%q: no %q in %s%s", args, text, out, errs)
		}
	}
}

// Each selector of a source has a flag of its name, which sets it and no other.
func TestSourceSet_flagForEachSelector(t *testing.T) {
	t.Parallel()
	for i, n := range new(source.Selectors).Named() {
		var flags sourceSettings
		parser := must.Get(kong.New(&flags))(t)
		must.Get(parser.Parse([]string{"--" + n.Name, "#x"}))(t)
		var want source.Settings
		*want.Selectors.Named()[i].Text = "#x"
		assert.Equal(t, flags.settings(), want, "--%s sets", n.Name)
	}
}
