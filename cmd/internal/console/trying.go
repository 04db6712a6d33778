package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/visiting"
)

// The limits of a trial. Pages are requested at the pace of their host and through the address guard, as by the
// monitor.
const (
	maxTrialPages   = 5
	trialTimeout    = 25 * time.Second
	maxTrials       = 4  // at once, per process
	maxTrialsOfOne  = 2  // of an organization, or of the operators
	maxTrialEvents  = 20 // visible
	maxTrialOrigins = 40 // per event
	maxTrialDates   = 5  // per event
	maxTrialNotes   = 20
)

// trial is a source that was tried, and the result.
type trial struct {
	remarks

	Type, Where, Timezone string
	Settings              source.Settings

	Types  []string
	Done   bool
	Took   time.Duration
	Pages  int
	Unread int
	Events []triedEvent
	Found  int // number of events; Events are the first of them
	Notes  []collect.Note
	Passed []collect.Passed
	Now    time.Time
	Closed bool // whether the origins of fields are folded
	Guess  bool // whether the selectors are those of a list that was guessed
	page   screen
}

// triedEvent is an event as it would be collected, and the origin of each of its fields.
type triedEvent struct {
	happening.Details

	Dates    []happening.Occurrence
	AllDates int
	Origins  []collect.Origin
}

// readTrial reads the fields of a source, from an address or a form.
func (c *Console) readTrial(get func(string) string) trial {
	typed := trial{
		Type:     get("type"),
		Where:    strings.TrimSpace(get("where")),
		Timezone: strings.TrimSpace(get("timezone")),
		Types:    source.Types(),
		Now:      c.Now().UTC(),
		page:     screen{Title: "Try a source", Template: "try"},
	}
	typed.Settings.IgnoreLists = get("ignoreLists") != ""
	for _, n := range typed.Settings.Selectors.Named() {
		*n.Text = strings.TrimSpace(get(n.Name))
	}
	return typed
}

// Selectors returns those of the form, for its template.
func (t trial) Selectors() []source.NamedSelector { return t.Settings.Selectors.Named() }

func (c *Console) readTypedTrial(v *visit) (*trial, error) {
	typed := c.readTrial(v.PostFormValue)
	return &typed, nil
}

func (t *trial) screen() screen {
	shown := t.page
	shown.Data = *t
	return shown
}

// showTry answers GET /console/sources/try. The address may have the fields of the form; nothing is requested yet.
func (c *Console) showTry(v *visit) (screen, error) {
	typed := c.readTrial(v.URL.Query().Get)
	return typed.screen(), nil
}

// try answers POST /console/sources/try.
func (c *Console) try(v *visit, typed *trial) (string, error) {
	if err := errors.Join(typed.source().Check(), command.CheckSettings(typed.Settings)); err != nil {
		return "", err
	}
	return "", c.run(v.Context(), v.organization(), typed)
}

// source returns the source to try, or to add.
func (t *trial) source() command.RegisterSource {
	typed := command.RegisterSource{Type: t.Type, Timezone: t.Timezone}
	if source.IsPage(t.Type) {
		typed.URL = t.Where
	} else {
		typed.Handle = t.Where
	}
	return typed
}

// trials are the trials that run, by their organization; operators' own have none.
type trials struct {
	mu      sync.Mutex
	running map[uuid.UUID]int
	all     int
}

// begin reports whether there is room for another trial of an organization. If so, end must be called.
func (t *trials) begin(of uuid.UUID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == maxTrials || t.running[of] == maxTrialsOfOne {
		return false
	}
	if t.running == nil {
		t.running = map[uuid.UUID]int{}
	}
	t.running[of]++
	t.all++
	return true
}

func (t *trials) end(of uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.running[of]--; t.running[of] == 0 {
		delete(t.running, of)
	}
}

// run tries a source, if there is room for another trial.
func (c *Console) run(ctx context.Context, of uuid.UUID, shown *trial) error {
	tried := shown.source()
	collector := c.Collectors[tried.Type]
	if collector == nil {
		return wire.Fail(wire.Invalid, "type", "can't be collected by this version")
	}
	if !c.trials.begin(of) {
		return &wire.Failure{Kind: wire.RateLimited, Issue: tryingOthers}
	}
	defer c.trials.end(of)
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	began := time.Now()
	found, err := visiting.Trial{
		Source: collect.Source{
			Type:     tried.Type,
			URL:      tried.URL,
			Handle:   strings.TrimPrefix(tried.Handle, "@"),
			Timezone: tried.Timezone,
			Settings: shown.Settings,
		},
		Collector: collector,
		Most:      maxTrialPages,
		Now:       shown.Now,
	}.Run(ctx)
	if event, title := found.Notes.Guess(); event != "" && shown.Settings == (source.Settings{}) {
		shown.Guess, shown.Settings.Selectors = true, source.Selectors{Event: event, Title: title}
	}
	shown.Took = time.Since(began).Round(time.Millisecond)
	if err != nil {
		return trialRefusal(err)
	}
	shown.Done, shown.Pages, shown.Unread, shown.Found = true, found.Requests, found.Unread, len(found.Observations)
	shown.Notes, shown.Passed = found.Notes[:min(len(found.Notes), maxTrialNotes)], found.Passed[:min(len(found.Passed),
		maxTrialNotes)]
	for _, o := range found.Observations[:min(len(found.Observations), maxTrialEvents)] {
		shown.Events = append(shown.Events, eventOf(o, shown.Now))
	}
	return nil
}

// trialRefusal returns what is wrong with a source, in the words of its list.
func trialRefusal(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &wire.Failure{Kind: wire.Conflict, Issue: fmt.Sprintf(triedTooLong, trialTimeout), Cause: err}
	}
	issue := "it can't be read: " + err.Error()
	if advice := visiting.AdviceOn(err); advice != "" {
		issue += ". What to do: " + advice
	}
	return &wire.Failure{Kind: wire.Conflict, Issue: issue, Cause: err}
}

// eventOf puts the coming dates first.
func eventOf(o collect.Observation, now time.Time) triedEvent {
	e := triedEvent{Details: o.Details, Origins: o.Origins[:min(len(o.Origins), maxTrialOrigins)]}
	var past []happening.Occurrence
	for _, instance := range o.Details.Instances {
		for _, date := range instance.Occurrences {
			e.AllDates++
			if date.Start.Before(now) {
				past = append(past, date)
			} else {
				e.Dates = append(e.Dates, date)
			}
		}
	}
	if len(e.Dates) == 0 {
		e.Dates = past
	}
	slices.SortStableFunc(e.Dates, func(a, b happening.Occurrence) int { return a.Start.Compare(b.Start) })
	e.Dates = e.Dates[:min(len(e.Dates), maxTrialDates)]
	return e
}
