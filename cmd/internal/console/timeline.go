package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/disclosure"
	"carillon/cmd/internal/wire"
	"carillon/projections/audit"
	"carillon/query"
)

// The sizes of the time line, in its own units: the browser scales them.
const (
	lineWidth   = 1000
	laneHeight  = 18
	laneGap     = 6
	sliderSteps = 1000
)

// timeLine is the history of a destination as a chart, and the destination at one moment of it.
type timeLine struct {
	From, Until time.Time // its ends
	At          time.Time // the selected moment
	Past        bool      // whether it is not now
	State       *query.AuditState
	Now         *query.AuditState
	Step        int // of the slider
	Presets     []preset
	Statuses    []span
	Secrets     []secretLane
	Marks       []mark
	Entries     []change // newest first; see addEntries
	Height      int
}

// span is a part of a lane.
type span struct {
	X, Width int
	Kind     string // CSS class
	Title    string
}

// secretLane is the lifetime of one secret.
type secretLane struct {
	ID    uuid.UUID
	Y     int
	Spans []span
}

// mark is a change.
type mark struct {
	X     int
	Title string
}

// newTimeLine draws a history. The moment is at, or the slider's step; without either it is now.
func newTimeLine(history []query.AuditEntry, asked url.Values, now time.Time) (timeLine, error) {
	t := timeLine{From: history[0].At, Until: now, At: now}
	for _, e := range history {
		if e.At.After(t.Until) {
			t.Until = e.At // by the clock of another node
		}
	}
	if t.Until.Sub(t.From) < time.Minute {
		t.Until = t.From.Add(time.Minute)
	}
	var err error
	switch at, step := asked.Get("at"), asked.Get("moment"); {
	case at != "":
		if t.At, err = readTime("at", at); err != nil {
			return t, err
		}
		t.Past = t.At.Before(now)
	case step != "":
		n, err := strconv.Atoi(step)
		if err != nil || n < 0 || n > sliderSteps {
			return t, wire.Fail(wire.BadQuery, "moment", "must be from 0 to %d", sliderSteps)
		}
		t.Past = n < sliderSteps
		if t.Past {
			t.At = t.From.Add(t.Until.Sub(t.From) / sliderSteps * time.Duration(n)).Truncate(time.Millisecond)
			if n == 0 {
				t.At = t.From
			}
		}
	}
	t.State, t.Now = query.AuditStateAt(history, t.At), query.AuditStateNow(history, now)
	if !t.Past {
		t.State = t.Now
	}
	for _, p := range []struct {
		name string
		ago  time.Duration
	}{{"an hour ago", time.Hour}, {"a day ago", 24 * time.Hour}, {"a week ago", 7 * 24 * time.Hour}} {
		if then := now.Add(-p.ago); then.After(t.From) {
			t.Presets = append(t.Presets, preset{p.name, "?" + url.Values{"at": {iso(then.Truncate(time.Second))}}.Encode()})
		}
	}
	t.Step = sliderSteps * t.x(t.At) / lineWidth
	t.draw(history)
	return t, nil
}

// x returns the position of a time.
func (t *timeLine) x(at time.Time) int {
	whole := t.Until.Sub(t.From)
	return int(min(max(0, float64(at.Sub(t.From))/float64(whole)), 1) * lineWidth)
}

// X returns the position of the selected moment.
func (t timeLine) X() int { return t.x(t.At) }

func (t *timeLine) span(from, to time.Time, kind, title string) span {
	x := t.x(from)
	return span{
		X:     x,
		Width: max(2, t.x(to)-x),
		Kind:  kind,
		Title: title,
	}
}

func (t *timeLine) draw(history []query.AuditEntry) {
	t.drawStatuses(history)
	for i, s := range t.Now.Secrets {
		t.Secrets = append(t.Secrets, t.drawSecret(s, history, (i+1)*(laneHeight+laneGap)))
	}
	t.Height = (len(t.Secrets)+1)*(laneHeight+laneGap) + laneGap
}

// addEntries adds the changes of a destination and of its subscriptions, newest first. Changes of settings are known by
// what they changed.
func (t *timeLine) addEntries(history []query.AuditEntry, record []query.RecordEntry) {
	var known query.AuditDetail // the last settings
	revised := map[uuid.UUID]string{}
	for _, e := range history {
		if e.Detail.URL != "" && known.URL != "" {
			revised[e.EventID] = "changed " + strings.Join(audit.Changes(known, e.Detail), ", ")
		}
		if e.Detail.URL != "" {
			known = e.Detail
		}
	}
	for _, e := range record {
		if e.Detail == nil || strings.HasPrefix(e.Type, disclosure.Aggregate.Category+".") { // listed apart
			continue
		}
		words := cmp.Or(revised[e.EventID], audit.Describe(e, "it", func(at time.Time) string { return when(at) }))
		t.Marks = append(t.Marks, mark{X: t.x(e.At), Title: when(e.At) + ": " + words})
		t.Entries = append(t.Entries, change{
			RecordEntry: e,
			Words:       words,
			Link:        "?" + url.Values{"at": {e.At.Format(time.RFC3339Nano)}}.Encode(),
		})
	}
}

func (t *timeLine) drawStatuses(history []query.AuditEntry) {
	status, since := "", t.From
	add := func(until time.Time) {
		if status != "" {
			t.Statuses = append(t.Statuses, t.span(since, until, status, statusWord(status)+" from "+when(since)))
		}
	}
	for _, e := range history {
		if e.Detail.Status != "" {
			add(e.At)
			status, since = e.Detail.Status, e.At
		}
	}
	add(t.Until)
}

// drawSecret draws when a secret signed alone, and when together with its successor.
func (t *timeLine) drawSecret(s query.AuditSecret, history []query.AuditEntry, y int) secretLane {
	lane := secretLane{ID: s.ID, Y: y}
	end := t.Until
	if s.ExpiresAt != nil && s.ExpiresAt.Before(end) {
		end = *s.ExpiresAt
	}
	overlap := end
	for _, e := range history {
		if e.Detail.Status == "deleted" && e.At.Before(end) {
			end = e.At
		}
		if slices.Contains(e.Detail.Expiring, s.ID) && e.Detail.SecretID != uuid.Nil && e.At.Before(overlap) {
			overlap = e.At // it was rotated then
		}
	}
	if end.Before(overlap) {
		overlap = end
	}
	lane.Spans = append(lane.Spans, t.span(s.CreatedAt, overlap, "signs", "signs from "+when(s.CreatedAt)))
	if overlap.Before(end) {
		lane.Spans = append(lane.Spans, t.span(overlap, end, "overlaps", "signs beside its successor until "+when(end)))
	}
	return lane
}
