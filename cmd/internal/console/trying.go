package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
	"carillon/command/collect"
	"carillon/command/collection"
)

// The limits of a trial. Pages are requested at the pace of their host and through the address guard, as by the
// monitor.
const (
	maxTrialPages   = 5
	trialTimeout    = 25 * time.Second
	maxTrials       = 2  // for all operators, per process
	maxTrialEvents  = 20 // visible
	maxTrialOrigins = 40 // per event
	maxTrialDates   = 5  // per event
	maxTrialNotes   = 20
)

// trial is a source that was tried, and the result.
type trial struct {
	Type, Where, Timezone string

	Types   []string
	Refusal string
	Done    bool
	Took    time.Duration
	Pages   int
	Unread  int
	Events  []triedEvent
	Found   int // number of events; Events are the first of them
	Notes   []collect.Note
	Passed  []collect.Passed
	Now     time.Time
}

// triedEvent is an event as it would be collected, and the origin of each of its fields.
type triedEvent struct {
	happening.Details

	Dates    []happening.Occurrence
	AllDates int
	Origins  []collect.Origin
}

// showTry answers GET /console/sources/try. The address may have the fields of the form; nothing is requested yet.
func (c *Console) showTry(v *visit) (screen, error) {
	values := v.URL.Query()
	shown := trial{
		Type:     values.Get("type"),
		Where:    values.Get("where"),
		Timezone: values.Get("timezone"),
		Types:    source.Types(),
		Now:      c.Now().UTC(),
	}
	return screen{Title: "Try a source", Template: "try", Data: shown}, nil
}

// try answers POST /console/sources/try.
func (c *Console) try(v *visit) (screen, error) {
	v.Body = http.MaxBytesReader(nil, v.Body, maxForm)
	shown := trial{
		Type:     v.PostFormValue("type"),
		Where:    strings.TrimSpace(v.PostFormValue("where")),
		Timezone: strings.TrimSpace(v.PostFormValue("timezone")),
		Types:    source.Types(),
		Now:      c.Now().UTC(),
	}
	page := screen{Title: "Try a source", Template: "try"}
	tried, err := shown.source()
	if err == nil {
		err = c.run(v.Context(), tried, &shown)
	}
	if err != nil {
		failure := wire.FailureOf(err)
		if failure.Kind == wire.Internal || failure.Kind == wire.Unavailable && !errors.Is(err, context.DeadlineExceeded) {
			return screen{}, err
		}
		wire.NoteFailure(v.Context(), failure)
		shown.Refusal, page.Status = upperFirst(failure.Error())+".", failure.Status()
	}
	page.Data = shown
	return page, nil
}

// source returns the source to try.
func (t *trial) source() (collect.Source, error) {
	tried := collect.Source{Type: t.Type, Timezone: t.Timezone}
	if !slices.Contains(t.Types, t.Type) {
		return tried, wire.Fail(wire.Invalid, "type", "must be one of %s", words(t.Types))
	}
	if err := searchable("address", t.Where); err != nil {
		return tried, err
	}
	if _, err := time.LoadLocation(t.Timezone); err != nil || t.Timezone == "Local" {
		return tried, wire.Fail(wire.Invalid, "time zone", "must be an IANA name such as Europe/Rome")
	}
	if source.IsPage(t.Type) {
		u, err := url.Parse(t.Where)
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
			return tried, wire.Fail(wire.Invalid, "address", "must be that of a page, such as https://example.org/events")
		}
		tried.URL = t.Where
		return tried, nil
	}
	if tried.Handle = strings.TrimPrefix(t.Where, "@"); tried.Handle == "" || strings.ContainsAny(tried.Handle, "/?#: ") {
		return tried, wire.Fail(wire.Invalid, "account", "must be its name as the platform shows it, such as @townhall")
	}
	return tried, nil
}

// run tries a source, if there is room for another trial.
func (c *Console) run(ctx context.Context, tried collect.Source, shown *trial) error {
	collector := c.operators.Collectors[tried.Type]
	if collector == nil {
		return wire.Fail(wire.Invalid, "type", "can't be collected by this version")
	}
	select {
	case c.trials <- struct{}{}:
		defer func() { <-c.trials }()
	default:
		return &wire.Failure{Kind: wire.RateLimited, Issue: tryingOthers}
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	began := time.Now()
	found, err := collection.Trial{
		Source:    tried,
		Collector: collector,
		Most:      maxTrialPages,
		Now:       shown.Now,
	}.Run(ctx)
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
	if advice := collection.AdviceOn(err); advice != "" {
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
