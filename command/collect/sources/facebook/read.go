package facebook

import (
	"context"
	"net/url"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/place"
	gate "carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/platform"
)

type account struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Username string `json:"username"`
	Picture  struct {
		Data struct {
			URL string `json:"url"`
		} `json:"data"`
	} `json:"picture"`
}

func (a account) publisher() *happening.Publisher {
	if a.Name == "" && a.Username == "" {
		return nil
	}
	avatar := ""
	if u := platform.Link(a.Picture.Data.URL); u != nil {
		avatar = u.String()
	}
	return &happening.Publisher{
		Type:      "page",
		Name:      markup.Plain(a.Name),
		Username:  a.Username,
		AvatarURL: avatar,
	}
}

func (a account) organizer() *happening.Organizer {
	if a.Name == "" {
		return nil
	}
	o := &happening.Organizer{Name: markup.Plain(a.Name)}
	if name := a.Username + a.ID; name != "" {
		if a.Username != "" {
			name = a.Username
		}
		o.URL = "https://www.facebook.com/" + url.PathEscape(name)
	}
	return o
}

type venue struct {
	Name     string `json:"name"`
	Location struct {
		Street    string   `json:"street"`
		City      string   `json:"city"`
		Zip       string   `json:"zip"`
		State     string   `json:"state"`
		Country   string   `json:"country"`
		Latitude  *float64 `json:"latitude"`
		Longitude *float64 `json:"longitude"`
	} `json:"location"`
}

func (v venue) where() candidate.Where {
	l := v.Location
	w := candidate.Where{
		Venue: markup.Plain(v.Name),
		Address: place.Address{
			Street:     markup.Plain(l.Street),
			Locality:   markup.Plain(l.City),
			Region:     markup.Plain(l.State),
			PostalCode: markup.Plain(l.Zip),
			Country:    markup.Plain(l.Country),
		},
	}
	if l.Latitude != nil && l.Longitude != nil && *l.Latitude >= -90 && *l.Latitude <= 90 && *l.Longitude >= -180 &&
		*l.Longitude <= 180 {
		w.Geo = &happening.Coordinates{Lat: *l.Latitude, Lng: *l.Longitude}
	}
	return w
}

type event struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Start       string `json:"start_time"`
	End         string `json:"end_time"`
	Timezone    string `json:"timezone"`
	Cancelled   bool   `json:"is_canceled"`
	Draft       bool   `json:"is_draft"`
	Online      bool   `json:"is_online"`
	Format      string `json:"online_event_format"`
	OnlineURL   string `json:"online_event_third_party_url"`
	Times       []struct {
		Start string `json:"start_time"`
		End   string `json:"end_time"`
	} `json:"event_times"`
	Place *venue `json:"place"`
	Cover struct {
		Source string `json:"source"`
	} `json:"cover"`
	Owner   account `json:"owner"`
	Tickets string  `json:"ticket_uri"`
	Type    string  `json:"type"`
}

// events reads a page of events. The first page links the posts.
func (c *Collector) events(ctx context.Context, source collect.Source, known collect.Known,
	at platform.Address) (collect.Page, error) {
	var answer struct {
		Data   []event `json:"data"`
		Paging paging  `json:"paging"`
	}
	at.Part = events
	if err := c.ask(ctx, at, eventFields, &answer); err != nil {
		return collect.Page{}, err
	}
	if answer.Data == nil {
		return collect.Page{}, c.client.Lacks("events")
	}
	var entries []platform.Entry
	stable := make([]event, len(answer.Data))
	for i, e := range answer.Data {
		stable[i] = e
		stable[i].Cover.Source = platform.Stable(e.Cover.Source)
		stable[i].Owner.Picture.Data.URL = ""
		if t, ok := e.entry(); ok {
			entries = append(entries, t)
		}
	}
	var links []collect.Link
	if known.Root {
		links = append(links, collect.Link{Address: platform.Address{Platform: Type, Account: at.Account,
			Part: posts}.String(), List: true})
	}
	return c.finish(ctx, source, known, at, entries, stable, answer.Paging, links...)
}

// entry returns the candidate of a public event.
func (e event) entry() (platform.Entry, bool) {
	start, err := timing.Parse(e.Start, false)
	shared := e.Type == "" || e.Type == "public" || e.Type == "page" || e.Type == "community"
	if err != nil || e.Draft || !shared || strings.Trim(e.ID, "0123456789") != "" || e.ID == "" {
		return platform.Entry{}, false
	}
	page := &url.URL{Scheme: "https", Host: "www.facebook.com", Path: "/events/" + e.ID + "/"}
	k := &candidate.Candidate{
		Syntax:      collect.PlatformEvent,
		Title:       markup.Plain(e.Name),
		Addresses:   []*url.URL{page},
		Description: markup.HTML(e.Description),
		Zone:        e.Timezone,
		Organizer:   e.Owner.organizer(),
		Images:      platform.Images(e.Cover.Source),
		Links:       platform.Images(e.Tickets),
	}
	k.Says(collect.FieldTitle, "name", "", e.Name)
	k.Says(collect.FieldStart, "start_time", "", e.Start)
	k.Says(collect.FieldURL, "id", "", page.String())
	if e.Description != "" {
		k.Says(collect.FieldDescription, "description", "", e.Description)
	}
	if e.Timezone != "" {
		k.Says(collect.FieldTimezone, "timezone", "", e.Timezone)
	}
	status := happening.Scheduled
	if e.Cancelled {
		status = happening.Cancelled
		k.Says(collect.FieldStatus, "is_canceled", "", "true")
	}
	hold := func(start timing.Stamp, end string) {
		h := candidate.Holding{When: timing.Range{Start: start}, Status: status}
		if stop, err := timing.Parse(end, false); err == nil {
			h.When.End = &stop
		}
		k.Holdings = append(k.Holdings, h)
	}
	for _, t := range e.Times {
		if begin, err := timing.Parse(t.Start, false); err == nil {
			hold(begin, t.End)
		}
	}
	if k.Recurring = len(k.Holdings) > 0; k.Recurring {
		k.Says(collect.FieldRecurrence, "event_times", "", "")
	} else {
		hold(start, e.End)
		if e.End != "" {
			k.Says(collect.FieldEnd, "end_time", "", e.End)
		}
	}
	e.where(k)
	return platform.Entry{Event: k, URL: page, Block: happening.Block{
		Type:         Type,
		Subtype:      "event",
		PermalinkURL: page.String(),
		Publisher:    e.Owner.publisher(),
	}}, true
}

func (e event) where(k *candidate.Candidate) {
	if e.Place != nil {
		k.Where = e.Place.where()
		k.Says(collect.FieldLocation, "place", "", e.Place.Name)
		if k.Where.Geo != nil {
			k.Says(collect.FieldCoordinates, "place.location", "", "")
		}
	}
	if e.Owner.Name != "" {
		k.Says(collect.FieldOrganizer, "owner", "", e.Owner.Name)
	}
	if len(k.Images) > 0 {
		k.Says(collect.FieldImage, "cover.source", "", k.Images[0])
	}
	if e.Online || e.Format != "" && e.Format != "none" {
		k.Where.IsOnline = true
		if u := platform.Link(e.OnlineURL); u != nil {
			k.Where.Online = u.String()
		}
		k.Says(collect.FieldOnline, "is_online", "", e.OnlineURL)
	}
}

type post struct {
	ID        string  `json:"id"`
	Message   string  `json:"message"`
	Created   string  `json:"created_time"`
	Permalink string  `json:"permalink_url"`
	Picture   string  `json:"full_picture"`
	From      account `json:"from"`
	Published *bool   `json:"is_published"`
	Place     *venue  `json:"place"`
}

// posts reads a page of posts.
func (c *Collector) posts(ctx context.Context, source collect.Source, known collect.Known,
	at platform.Address) (collect.Page, error) {
	var answer struct {
		Data   []post `json:"data"`
		Paging paging `json:"paging"`
	}
	if err := c.ask(ctx, at, postFields, &answer); err != nil {
		return collect.Page{}, err
	}
	if answer.Data == nil {
		return collect.Page{}, c.client.Lacks("posts")
	}
	var entries []platform.Entry
	stable := make([]post, len(answer.Data))
	old := false
	for i, p := range answer.Data {
		stable[i] = p
		stable[i].Picture, stable[i].From.Picture.Data.URL = platform.Stable(p.Picture), ""
		t, created, ok := p.entry()
		if old = old || ok && c.isOld(created); ok && !c.isOld(created) {
			entries = append(entries, t)
		}
	}
	if old {
		answer.Paging = paging{} // the rest is older
	}
	page, err := c.finish(ctx, source, known, at, entries, stable, answer.Paging)
	page.Partial = page.Partial || old
	return page, err
}

func (p post) entry() (platform.Entry, time.Time, bool) {
	stamp, err := timing.Parse(p.Created, false)
	if err != nil || p.Published != nil && !*p.Published {
		return platform.Entry{}, time.Time{}, false
	}
	created := stamp.In(time.UTC)
	shown := platform.Link(p.Permalink)
	if shown == nil {
		shown = &url.URL{Scheme: "https", Host: "www.facebook.com", Path: "/" + p.ID}
	}
	read := gate.Post{
		Text:      p.Message,
		Field:     "message",
		CreatedAt: created,
		Permalink: shown,
		Organizer: p.From.organizer(),
		Images:    platform.Images(p.Picture),
	}
	if p.Place != nil {
		read.Where = p.Place.where()
	}
	block := happening.Block{
		Type:         Type,
		Subtype:      "post",
		PermalinkURL: shown.String(),
		Publisher:    p.From.publisher(),
	}
	return platform.Entry{Post: read, Block: block, URL: shown}, created, true
}
