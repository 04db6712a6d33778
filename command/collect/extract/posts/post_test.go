package posts_test

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func read(text, zone string) (dates, titles []string, passed []posts.Passed) {
	found, passed := posts.Read(nil, posts.Post{
		Text:      text,
		Field:     "message",
		CreatedAt: time.Date(2026, 11, 19, 10, 0, 0, 0, time.UTC),
		Zone:      zone,
	})
	dates, titles = instances(found)
	return dates, titles, passed
}

// TestDates covers the rules of the gate one by one.
func TestDates(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, zone, want string }{
		{"Concert 5 December 2026, 8pm", "", "2026-12-05T20:00"},
		{"Concert £10, 8pm", "", ""},
		{"Concert 24/7", "", ""},
		{"Concert on 6/12 at 8pm", "Europe/London", "2026-12-06T20:00"},
		{"Concert on 6/12 at 8pm", "America/Chicago", "2027-06-12T20:00"},
		{"Concert on 12/6 at 8pm", "America/Chicago", "2026-12-06T20:00"},
		{"Concert on 12/24 at 8pm", "Europe/London", "2026-12-24T20:00"},
		{"Concert on 18 November, 8pm", "", ""},
		{"Concert on 19 November, 8pm", "", "2026-11-19T20:00"},
		{"Concert on 19 November, 7am", "", ""}, // three hours before the post
		{"Concert on 19 May 2028, 8pm", "", "2028-05-19T20:00"},
		{"Concert on 20 May 2028, 8pm", "", ""}, // more than 18 months
		{"Concert on 31 November, 8pm", "", ""},
		{"Concert on Friday 5 December 2026, 8pm", "", ""}, // a Saturday
		{"Concert tomorrow at 8pm", "Pacific/Auckland", "2026-11-20T20:00"},
		{"Concert tonight at 8pm", "Pacific/Auckland", ""}, // it is eleven at night there
		{"Concert tonight at 8pm", "Europe/London", "2026-11-19T20:00"},
		{"Concert every Saturday at 8pm", "", ""},
		{"Concert until 5 December, 8pm", "", ""},
		{"5 December 2026, 8pm", "", ""}, // no title
		{"Concert 5 December, doors 7pm", "", "2026-12-05"},
		{"Concert 5 December, doors 7pm, start 8pm", "", "2026-12-05T20:00"},
		{"Concert 5 December, 11pm-3am", "", "2026-12-05T23:00/2026-12-06T03:00"},
		{"Konzert 5. Dezember, 20 Uhr", "", "2026-12-05T20:00"},
		{"Concert le 5 décembre à 20h30", "", "2026-12-05T20:30"},
		{"Concierto el 5 de diciembre a las 8 de la tarde", "", "2026-12-05T20:00"},
		{"Concerto il 5 dicembre, ore 21", "", "2026-12-05T21:00"},
		{"コンサート 12月5日(土)19時30分開演", "Asia/Tokyo", "2026-12-05T19:30"},
		{"𝗖𝗼𝗻𝗰𝗲𝗿𝘁 𝟱 𝗗𝗲𝗰𝗲𝗺𝗯𝗲𝗿, 𝟴𝗽𝗺", "", "2026-12-05T20:00"},
		{"Festival 30 December – 2 January", "", "2026-12-30/2027-01-02"},
		{"Concert 10 out of 10, call 020 7946 0123", "", ""},
	}
	for _, tt := range tests {
		dates, _, passed := read(tt.text, tt.zone)
		assert.Equal(t, strings.Join(dates, " "), tt.want, "%s … (%v)", tt.text, passed)
	}
}

// The origins of events and the reasons for passed dates are recorded.
func TestOrigins(t *testing.T) {
	t.Parallel()
	link := must.Get(url.Parse("https://x.com/kajhallen/status/1"))(t)
	found, passed := posts.Read(nil, posts.Post{
		Text: "Open rehearsal on Saturday 5 December at 14:00.\n📍 Havnegade 1, Aarhus\nApplications close on 30 " +
			"November.",
		Field:     "message",
		CreatedAt: time.Date(2026, 11, 19, 10, 0, 0, 0, time.UTC),
		Permalink: link,
	})
	must.True(t, len(found) == 1 && len(passed) == 1 && passed[0].Words == "30 November" &&
		strings.Contains(passed[0].Why, "deadline"), "%d found, passed %+v", len(found), passed)
	says := map[collect.Field]string{}
	for _, o := range found[0].Origins {
		says[o.Field] = o.Path + "|" + o.Element + "|" + o.Text
	}
	for field, want := range map[collect.Field]string{
		collect.FieldStart:    "message|line 1|Saturday 5 December at 14:00 (a time, a weekday",
		collect.FieldTitle:    "message|line 1|Open rehearsal",
		collect.FieldLocation: "message||📍 Havnegade 1, Aarhus",
		collect.FieldURL:      "permalink||https://x.com/kajhallen/status/1",
	} {
		if !strings.HasPrefix(says[field], want) {
			t.Errorf("%s: %q, want %q", field, says[field], want)
		}
	}
	if where := found[0].Where; where.AddressText != "Havnegade 1, Aarhus" || found[0].Syntax != collect.PostText {
		t.Errorf("where = %+v, syntax %s", where, found[0].Syntax)
	}
}

// A post may cancel, postpone or move an event.
func TestFate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ABGESAGT: Das Konzert am 5. Dezember fällt leider aus.":     "2026-12-05 cancelled",
		"Le concert du 5 décembre à 20h est annulé.":                 "2026-12-05T20:00 cancelled",
		"Il concerto del 5 dicembre è rinviato a data da destinarsi": "2026-12-05 postponed",
		"The concert on 5 December will now take place on 12 December 2026 at " +
			"20:00.": "2026-12-12T20:00 rescheduled from 2026-12-05T20:00",
		"The concert on 5 December 2026 at 20:00 takes place, whatever others were telling you.": "2026-12-05T20:00 ",
	} {
		found, passed := posts.Read(nil, posts.Post{Text: text, CreatedAt: time.Date(2026, 11, 19, 10, 0, 0, 0, time.UTC)})
		var got []string
		for _, c := range found {
			for _, h := range c.Holdings {
				line := shown(h.When.Start) + " " + string(h.Status)
				if h.Original != nil {
					line += " from " + shown(*h.Original)
				}
				got = append(got, line)
			}
		}
		assert.True(t, strings.Join(got, ", ") == want, "%s: %q, want %q (%v)", text, got, want, passed)
	}
}

// A list of dates with titles is several events, a list of dates of one title is one.
func TestSeveralEvents(t *testing.T) {
	t.Parallel()
	_, titles, _ := read("December at the hall:\n5 December: Jazz in the foyer, 8pm\n12 December: Tango night, 8pm", "")
	assert.Slices(t, titles, []string{"Jazz in the foyer", "Tango night"}, "titles")
	dates, titles, _ := read("The Tempest, a play, on 5, 6 and 12 December at 8pm", "")
	assert.True(t, len(titles) == 1 && len(dates) == 3, "titles %q, dates %q", titles, dates)
}

// FuzzRead shows that no event precedes its post or is more than 18 months later, that each has a title and its
// origins, and that reading ends within its budget.
func FuzzRead(f *testing.F) {
	for i, l := range corpus(f, "testdata/*.txt") {
		if i%9 == 0 {
			f.Add(l.post.Text, l.post.CreatedAt.Unix(), l.post.Zone)
		}
	}
	f.Add("31.12. bis 1.1. 24:00 29. Februar 0.0.0000", int64(1795082400), "Pacific/Kiritimati")
	f.Fuzz(func(t *testing.T, text string, created int64, zone string) {
		at := time.Unix(created%253402300799, 0).UTC()
		b := budget.New(t.Context())
		found, _ := posts.Read(b, posts.Post{
			Text:      text,
			Field:     "text",
			CreatedAt: at,
			Zone:      zone,
		})
		if b.Err() != nil && len(text) < 1000 {
			t.Errorf("%d bytes are too complex: %v", len(text), b.Err())
		}
		for _, c := range found {
			assert.True(t, strings.TrimSpace(c.Title) != "" && len(c.Holdings) != 0 && len(c.Origins) != 0, "candidate %+v", c)
			for _, h := range c.Holdings {
				last := h.When.Start.Wall
				if h.When.End != nil {
					last = h.When.End.Wall
				}
				if last.Before(at.Add(-48*time.Hour)) || h.When.Start.Wall.After(at.AddDate(0, 18, 3)) ||
					h.When.End != nil && last.Before(h.When.Start.Wall) {
					t.Errorf("%s: from %s to %s", at, h.When.Start.Wall, last)
				}
			}
		}
	})
}

// labelled is a post of the corpus with the events that people read in it.
type labelled struct {
	name   string
	post   posts.Post
	want   []string // start, or start/end, of each instance
	titles []string
}

// corpus reads testdata: "zone" sets the zone of a file, "@" begins a post with its time, ">" has an event: its dates,
// separated by plus signs, and its title.
func corpus(tb testing.TB, pattern string) []labelled {
	tb.Helper()
	files, err := filepath.Glob(pattern)
	must.True(tb, err == nil && len(files) != 0, "no corpus: %v", err)
	var all []labelled
	for _, file := range files {
		all = append(all, corpusFile(tb, file)...)
	}
	return all
}

func corpusFile(tb testing.TB, file string) []labelled {
	tb.Helper()
	f := must.Get(os.Open(file))(tb)
	defer func() { _ = f.Close() }()
	var all []labelled
	zone := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "zone "):
			zone = strings.TrimPrefix(line, "zone ")
		case strings.HasPrefix(line, "@ "):
			at, own, _ := strings.Cut(strings.TrimPrefix(line, "@ "), " zone ")
			created, err := time.Parse("2006-01-02T15:04Z", at)
			must.True(tb, err == nil, "%s: %v", file, err)
			l := labelled{name: fmt.Sprintf("%s %d", strings.TrimSuffix(filepath.Base(file), ".txt"), len(all)+1)}
			l.post = posts.Post{Field: "text", CreatedAt: created, Zone: zone}
			if own != "" {
				l.post.Zone = own
			}
			all = append(all, l)
		case strings.HasPrefix(line, "> "):
			last := &all[len(all)-1]
			words := strings.Fields(strings.TrimPrefix(line, "> "))
			for len(words) > 0 && (words[0] == "+" || words[0][0] == '2' && len(words[0]) >= len(time.DateOnly)) {
				if words[0] != "+" {
					last.want = append(last.want, words[0])
				}
				words = words[1:]
			}
			last.titles = append(last.titles, strings.Join(words, " "))
		default:
			last := &all[len(all)-1]
			last.post.Text = strings.TrimSpace(last.post.Text + "\n" + line)
		}
	}
	return all
}

func shown(s timing.Stamp) string {
	if s.HasTime {
		return s.Wall.Format("2006-01-02T15:04")
	}
	return s.Wall.Format(time.DateOnly)
}

// instances returns the dates of candidates in the form of the corpus.
func instances(found []*candidate.Candidate) (dates, titles []string) {
	for _, c := range found {
		titles = append(titles, c.Title)
		for _, h := range c.Holdings {
			text := shown(h.When.Start)
			if h.When.End != nil {
				text += "/" + shown(*h.When.End)
			}
			dates = append(dates, text)
		}
	}
	return dates, titles
}

// figures count expected and found dates.
type figures struct{ posts, without, expected, found, right, falseOnes, titles, titled int }

func (f figures) precision() float64 { return float64(f.right) / float64(max(f.found, 1)) }
func (f figures) recall() float64    { return float64(f.right) / float64(max(f.expected, 1)) }

func (f figures) String() string {
	return fmt.Sprintf("%d posts, %d without an event; %d dates expected, %d found, %d right (%d found in posts "+
		"without): precision %.1f %%, recall %.1f %%; titles %d of %d",
		f.posts, f.without, f.expected, f.found, f.right, f.falseOnes, 100*f.precision(), 100*f.recall(), f.titled, f.titles)
}

func (f *figures) count(l labelled, dates, titles []string) {
	f.posts++
	f.expected += len(l.want)
	f.found += len(dates)
	if len(l.want) == 0 {
		f.without++
		f.falseOnes += len(dates)
	}
	for _, want := range l.want {
		if slices.Contains(dates, want) {
			f.right++
		}
	}
	for _, want := range l.titles {
		if want != "" && len(dates) > 0 {
			f.titles++
			if slices.ContainsFunc(titles, func(title string) bool {
				return strings.HasPrefix(identity.Words(title), identity.Words(want))
			}) {
				f.titled++
			}
		}
	}
}

// TestCorpus measures precision and recall. The gate was made with the odd posts of the corpus; the even ones are held
// out. The sets in "later" were written afterwards one by one, the first four with new traps. At first the gate had
// precisions of 79, 94, 84, 85 and 93 %, and recalls of 84, 89, 81, 96 and 82 % on them. Then it was improved with
// them as well.
//
// A date is right if its day, its time and its end are.
func TestCorpus(t *testing.T) {
	t.Parallel()
	var whole, made, heldOut figures
	for i, l := range corpus(t, "testdata/*.txt") {
		found, passed := posts.Read(budget.New(t.Context()), l.post)
		dates, titles := instances(found)
		whole.count(l, dates, titles)
		if i%2 == 0 {
			made.count(l, dates, titles)
			if !slices.Equal(sorted(dates), sorted(l.want)) {
				t.Logf("%s: found %v, want %v\n%s\npassed over: %v", l.name, dates, l.want, l.post.Text, passed)
			} else if len(l.titles) == 1 && l.titles[0] != "" && !slices.Equal(titles, l.titles) {
				t.Logf("%s: title %q, want %q", l.name, titles, l.titles)
			}
		} else {
			heldOut.count(l, dates, titles)
		}
	}
	for _, set := range []string{"mixed", "second", "third", "fourth", "fifth"} {
		later := figures{}
		for _, l := range corpus(t, "testdata/later/"+set+".txt") {
			found, passed := posts.Read(budget.New(t.Context()), l.post)
			dates, titles := instances(found)
			later.count(l, dates, titles)
			whole.count(l, dates, titles)
			if len(l.titles) == 1 && l.titles[0] != "" && len(titles) > 0 && !strings.HasPrefix(identity.Words(titles[0]),
				identity.Words(l.titles[0])) {
				t.Logf("%s: title %q, want %q", l.name, titles, l.titles)
			}
			if testing.Verbose() && !slices.Equal(sorted(dates), sorted(l.want)) {
				t.Logf("%s: found %v, want %v\n%s\npassed over: %v", l.name, dates, l.want, l.post.Text, passed)
			}
		}
		t.Logf("%s: %s", set, later)
	}
	t.Logf("whole:    %s", whole)
	t.Logf("made for: %s", made)
	t.Logf("held out: %s", heldOut)
	// The required precision is 95 %, the recall 80 %; the thresholds hold what was reached.
	assert.True(t, whole.precision() >= 0.98 && whole.recall() >= 0.97 && heldOut.precision() >= 0.95 &&
		heldOut.recall() >= 0.95, "precision or recall has fallen")
	assert.True(t, whole.posts >= 300 && 2*whole.without >= whole.posts-10,
		"the corpus has %d posts, %d without an event", whole.posts, whole.without)
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
