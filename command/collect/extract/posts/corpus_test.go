package posts_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

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
	if err != nil || len(files) == 0 {
		tb.Fatalf("no corpus: %v", err)
	}
	var all []labelled
	for _, file := range files {
		all = append(all, corpusFile(tb, file)...)
	}
	return all
}

func corpusFile(tb testing.TB, file string) []labelled {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
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
			if err != nil {
				tb.Fatalf("%s: %v", file, err)
			}
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
	if whole.precision() < 0.98 || whole.recall() < 0.97 || heldOut.precision() < 0.95 || heldOut.recall() < 0.95 {
		t.Error("precision or recall has fallen")
	}
	if whole.posts < 300 || 2*whole.without < whole.posts-10 {
		t.Errorf("the corpus has %d posts, %d without an event", whole.posts, whole.without)
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
