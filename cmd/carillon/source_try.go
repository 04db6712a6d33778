package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/extract/timing"
	"carillon/command/visiting"
	"carillon/eventstore/instant"
)

type sourceTryCommand struct {
	Where    string `arg:"" name:"url|@handle" help:"URL of a page or calendar, or an account's handle."`
	Type     string `default:"site" enum:"${sourceTypes}" help:"${onePage}; ${oneAccount} for an account (${default})."`
	Timezone string `placeholder:"ZONE" help:"IANA time zone of dates without one, such as Europe/Rome."`

	sourceSettings

	From typedTime `placeholder:"TIME" help:"First day of shown occurrences. Default: 14 days ago."`
	To   typedTime `placeholder:"TIME" help:"Last day of shown occurrences. Default: 400 days ahead."`
	Now  typedTime `placeholder:"TIME" help:"Time to use as now, for repeatable results."`

	Pages int `default:"100" help:"Maximum number of pages."`

	JSON    bool `help:"Print JSON: one object a line for each event, then a summary."`
	Explain bool `help:"Show the syntax, element and text of each field."`

	CollectAllowCIDRs config.Prefixes `name:"collect-allow-cidrs" env:"CARILLON_COLLECT_ALLOW_CIDRS" placeholder:"CIDR,…" help:"Private address ranges to allow."`
	EgressDenyCIDRs   config.Prefixes `name:"egress-deny-cidrs" aliases:"delivery-deny-cidrs" env:"CARILLON_EGRESS_DENY_CIDRS,CARILLON_DELIVERY_DENY_CIDRS" placeholder:"CIDR,…" help:"Address ranges to deny; precedes allowed ranges."`

	EgressCA string `name:"egress-ca" env:"CARILLON_EGRESS_CA" placeholder:"FILE" help:"Certificates in PEM of authorities that are trusted besides the system's."`

	CollectContact string `env:"CARILLON_COLLECT_CONTACT" placeholder:"ADDRESS" help:"Contact in the User-Agent of requests: a page's URL or an e-mail address."`

	config.Platforms

	PlatformURL string `name:"platform-url" hidden:"" help:"Address of the platform's API, for tests."`
}

// Help implements kong.HelpProvider.
func (sourceTryCommand) Help() string {
	return `Reads a page or calendar as a collector would, without a server, and shows the events that it gives. Nothing is
stored. Omitted events, with the reasons, come at the end.

  carillon source try https://example.org/events --timezone Europe/Rome --explain
  carillon source try https://example.org/events --type siteIndexPage --pages 20
  carillon source try https://example.org/ --type sitemap
  carillon source try https://example.org/events --event '#programme > li' --title b --start .when
  carillon source try @townhall --type facebook --explain

An account is asked for by the platform's API, with the token of the server's own variables.

Times are such as 2026-11-21 or 2026-11-21T12:00:00Z. It succeeds if nothing was found, and fails if the page
could not be read. Addresses on this machine may be tried; pages elsewhere can't lead to one.`
}

// typedTime is a time as people type it: a day means its first moment, in UTC.
type typedTime struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *typedTime) UnmarshalText(text []byte) (err error) {
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if i.Time, err = time.Parse(form, string(text)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("must be a time such as 2026-11-21 or 2026-11-21T12:00:00Z; it is %q", text)
}

const (
	day        = 24 * time.Hour
	triedBack  = 14 * day
	triedAhead = 400 * day
)

// Run tries the source.
func (c *sourceTryCommand) Run(ctx context.Context, t terminal) error {
	tried, u, err := c.source()
	if err != nil {
		return err
	}
	if c.Timezone != "" {
		if _, err := time.LoadLocation(c.Timezone); err != nil {
			return fmt.Errorf("--timezone must be an IANA name such as Europe/Rome; it is %q", c.Timezone)
		}
	}
	if err := config.CheckContact(c.CollectContact); err != nil {
		return err
	}
	if c.Pages < 1 {
		return fmt.Errorf("--pages must be at least 1; it is %d", c.Pages)
	}
	now := time.Now().UTC()
	if !c.Now.IsZero() {
		now = c.Now.UTC()
	}
	show := shownWindow{now: now, from: now.Add(-triedBack), to: now.Add(triedAhead)}
	if !c.From.IsZero() {
		show.from = c.From.Time
	}
	if !c.To.IsZero() {
		show.to = c.To.Time
	}
	collector, err := c.collector(u, show)
	if err != nil {
		return err
	}
	progress := tryProgress{terminal: t}
	found, err := visiting.Trial{
		Source:    tried,
		Collector: collector,
		Most:      c.Pages,
		Now:       now,
		Progress:  progress.show,
	}.Run(ctx)
	progress.finish()
	if err != nil {
		return err
	}
	annotate(&found, c.Pages)
	events := make([]triedEvent, len(found.Observations))
	for i, o := range found.Observations {
		events[i] = show.event(o)
		if !c.Explain {
			events[i].Origins = nil
		}
	}
	summary := summarise(events, found)
	if c.Explain {
		summary.Passed = found.Passed
	}
	if c.JSON {
		return printTried(t.out, events, summary)
	}
	table := newTable(t.out)
	summary.print(zoned{table, t.zone()}, events)
	return table.Flush()
}

// source returns the source to try, and the address that is requested first.
func (c *sourceTryCommand) source() (collect.Source, *url.URL, error) {
	tried := collect.Source{Type: c.Type, Timezone: c.Timezone, Settings: c.settings()}
	if err := command.CheckSettings(tried.Settings); err != nil {
		return tried, nil, err
	}
	if source.IsPage(c.Type) {
		u, err := url.Parse(c.Where)
		if err != nil || u.Hostname() == "" {
			if strings.HasPrefix(c.Where, "@") {
				return tried, nil, fmt.Errorf("%q is an account: name its platform with --type %s", c.Where,
					either(source.Accounts()))
			}
			return tried, nil, fmt.Errorf(
				"%q is no address: it must be absolute, such as https://example.org/events", c.Where)
		}
		tried.URL = c.Where
		return tried, u, nil
	}
	if tried.Handle = strings.TrimPrefix(c.Where, "@"); tried.Handle == "" ||
		strings.ContainsAny(tried.Handle, "/?#: ") {
		return tried, nil, fmt.Errorf("%q is no account: give its name as the platform shows it, such as @townhall",
			c.Where)
	}
	c.Bases = map[string]string{c.Type: c.PlatformURL}
	u, err := url.Parse(c.PlatformURL)
	return tried, u, err
}

// collector is the one that a server has for the type. An address of this machine that the user names himself may be
// reached, and needs no pauses.
func (c *sourceTryCommand) collector(u *url.URL, show shownWindow) (collect.Collector, error) {
	allow, own := slices.Clone([]netip.Prefix(c.CollectAllowCIDRs)), false
	addr, err := netip.ParseAddr(u.Hostname())
	switch {
	case err == nil && addr.IsLoopback():
		allow, own = append(allow, netip.PrefixFrom(addr, addr.BitLen())), true
	case strings.EqualFold(u.Hostname(), "localhost"):
		allow, own = append(allow, dev.Loopback...), true
	}
	roots, err := (&config.Config{EgressCA: c.EgressCA}).EgressRoots(nil)
	if err != nil {
		return nil, err
	}
	collectors, err := app.Collectors(app.Collecting{
		Allow:       allow,
		Deny:        c.EgressDenyCIDRs,
		Roots:       roots,
		NoHostDelay: own,
		Contact:     c.CollectContact,
		Platforms:   c.Platforms,
		Now:         func() time.Time { return show.now },
		Window: timing.Window{
			From:    show.from.UTC().Truncate(day),
			To:      show.to.UTC().Add(day).Truncate(day),
			Visited: show.now,
		},
	})
	if err != nil {
		return nil, err
	}
	if collectors[c.Type] == nil {
		return nil, fmt.Errorf("sources of type %s can't be collected by this version", c.Type)
	}
	return collectors[c.Type], nil
}

// shownWindow is which occurrences are shown, and as of when.
type shownWindow struct{ now, from, to time.Time }

// triedEvent is an event as an item of the current shape shows it, without the ids, which nothing has been given.
type triedEvent struct {
	Title            string               `json:"title"`
	Description      string               `json:"description"`
	SupportingImages []string             `json:"supportingImages"`
	URLs             []string             `json:"urls"`
	GeoLocations     []triedGeo           `json:"geoLocations"`
	ShortDescription string               `json:"shortDescription,omitzero"`
	Time             happening.Time       `json:"time"`
	Location         *happening.Location  `json:"location,omitzero"`
	Capacity         *happening.Capacity  `json:"capacity,omitzero"`
	Organizer        *happening.Organizer `json:"organizer,omitzero"`
	PrimaryImage     string               `json:"primaryImage,omitzero"`
	PrimaryURL       string               `json:"primaryUrl,omitzero"`
	Occurrence       triedOccurrences     `json:"occurrence"`
	Origins          []collect.Origin     `json:"origins,omitzero"`
}

type triedGeo struct {
	Description  string                 `json:"description"`
	RelationType happening.RelationType `json:"relationType"`
	Score        int                    `json:"score"`
}

type triedOccurrences struct {
	Next     *triedOccurrence  `json:"nextOccurrence,omitzero"`
	InRange  []triedOccurrence `json:"occurrencesInRange"`
	Total    int               `json:"totalOccurrences"`
	Upcoming int               `json:"upcomingOccurrences"`
	outside  int
}

type triedOccurrence struct {
	StartDateTime time.Time        `json:"startDateTime"`
	EndDateTime   *time.Time       `json:"endDateTime"`
	Status        happening.Status `json:"status"`
}

func (w shownWindow) event(o collect.Observation) triedEvent {
	d := o.Details
	e := triedEvent{
		Title:            d.Title,
		Description:      d.Description,
		SupportingImages: d.SupportingImages,
		URLs:             d.URLs,
		ShortDescription: d.ShortDescription,
		Time:             d.Time,
		Location:         d.Location,
		Capacity:         d.Capacity,
		Organizer:        d.Organizer,
		PrimaryImage:     d.PrimaryImage,
		PrimaryURL:       d.PrimaryURL,
		Occurrence:       w.occurrences(d.Instances),
		Origins:          o.Origins,
	}
	for _, g := range d.GeoLocations {
		e.GeoLocations = append(e.GeoLocations, triedGeo{g.Description, g.RelationType, g.Score})
	}
	return e
}

func (w shownWindow) occurrences(instances []happening.Instance) triedOccurrences {
	shown := triedOccurrences{}
	for _, instance := range instances {
		for _, o := range instance.Occurrences {
			if o.Start.Before(w.from) || o.Start.After(w.to) {
				shown.outside++
				continue
			}
			shown.InRange = append(shown.InRange, w.occurrence(o))
			if o.Start.After(w.now) && o.Status != happening.Cancelled && o.Status != happening.Postponed {
				shown.Upcoming++
			}
		}
	}
	slices.SortStableFunc(shown.InRange,
		func(a, b triedOccurrence) int { return a.StartDateTime.Compare(b.StartDateTime) })
	if shown.Total = len(shown.InRange); shown.Total > 0 {
		shown.Next = &shown.InRange[0]
	}
	return shown
}

// occurrence returns an occurrence, completed if it was to take place and has ended.
func (w shownWindow) occurrence(o happening.Occurrence) triedOccurrence {
	end := o.Start
	if o.End != nil {
		end = *o.End
	}
	status := o.Status
	if !end.After(w.now) && status != happening.Cancelled && status != happening.Postponed {
		status = happening.Completed
	}
	return triedOccurrence{StartDateTime: o.Start, EndDateTime: o.End, Status: status}
}

// triedSummary has the counts and notes of a try.
type triedSummary struct {
	Pages       int `json:"pages"`
	Events      int `json:"events"`
	Occurrences int `json:"occurrences"`
	// OutsideRange counts the occurrences that are not shown, since they are not between from and to.
	OutsideRange int            `json:"outsideRange"`
	LeftOut      []collect.Note `json:"leftOut"`
	Notes        []collect.Note `json:"notes"`
	// Passed are dates in posts that are no event's.
	Passed []collect.Passed `json:"passed,omitzero"`
}

func summarise(tried []triedEvent, found visiting.Tried) triedSummary {
	s := triedSummary{Pages: found.Requests, Events: len(tried)}
	for _, e := range tried {
		s.Occurrences += e.Occurrence.Total
		s.OutsideRange += e.Occurrence.outside
	}
	for _, note := range found.Notes {
		if note.Code == collect.NoteSkippedEvent || note.Code == collect.NoteTruncated {
			s.LeftOut = append(s.LeftOut, note)
		} else {
			s.Notes = append(s.Notes, note)
		}
	}
	return s
}

// printTried writes an object a line, the summary at last.
func printTried(out io.Writer, tried []triedEvent, summary triedSummary) error {
	for _, e := range tried {
		if err := printLine(out, e); err != nil {
			return err
		}
	}
	return printLine(out, struct {
		Summary triedSummary `json:"summary"`
	}{summary})
}

func printLine(out io.Writer, v any) error {
	data, err := json.Marshal(v, instant.JSON)
	if err != nil {
		return err
	}
	_, err = out.Write(append(data, '\n'))
	return err
}

// listedOccurrences is how many occurrences of an event are listed as text.
const listedOccurrences = 5

func (s triedSummary) print(w io.Writer, tried []triedEvent) {
	for _, e := range tried {
		where := ""
		if e.Location != nil {
			where = e.Location.DisplayAddress
		}
		row(w, e.Title)
		row(w, "", "when", e.Time.DisplayText, e.Time.Timezone)
		for i, o := range e.Occurrence.InRange {
			if i == listedOccurrences {
				row(w, "", "", fmt.Sprintf("… %d in all", e.Occurrence.Total), "")
				break
			}
			row(w, "", "", o.StartDateTime, o.Status)
		}
		row(w, "", "where", where, "")
		row(w, "", "url", e.PrimaryURL, "")
		for _, o := range e.Origins {
			row(w, "", o.Field, fmt.Sprintf("%s %s <%s>", o.Syntax, o.Path, o.Element), o.Text)
		}
	}
	for _, p := range s.Passed {
		row(w, fmt.Sprintf("passed over: %q, %s (%s)", p.Words, p.Why, p.Address))
	}
	for _, note := range append(slices.Clone(s.LeftOut), s.Notes...) {
		row(w, string(note.Code)+": "+note.Text)
	}
	row(w, strings.Join([]string{
		counted(s.Pages, "page"), counted(s.Events, "event"), counted(s.Occurrences, "occurrence") + " in the range",
		fmt.Sprintf("%d outside of it", s.OutsideRange),
	}, ", "))
}

func counted[N int | uint64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
