package console

import (
	"strings"

	"github.com/go-chi/chi/v5"

	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/projections/sources"
	"carillon/query"
)

func (c *Console) feedSourceRoutes(r chi.Router) {
	r.Get("/feeds/{feed}/sources/new", c.page(c.showAttachSource))
	r.Post("/feeds/{feed}/sources/new", form(c, c.readAttachment, c.attachSource))
	r.Post("/feeds/{feed}/sources/try", form(c, c.readAttachment, c.tryForFeed))
	r.Get("/feeds/{feed}/sources/{association}/detach", c.page(c.confirmFeed))
	r.Post("/feeds/{feed}/sources/{association}/detach", c.act(c.detachSource))
}

// attachment is a source to attach to a feed, named by its address or its id.
type attachment struct {
	trial

	Feed query.Feed
	ID   string
}

// Results returns the result of the trial for its page.
func (a attachment) Results() trial { return a.trial }

// kinds are the types of sources with an address, in words.
var kinds = []kind{
	{source.TypeSite, "a page or a calendar"},
	{source.TypeSiteIndexPage, "a page that lists others"},
	{source.TypeSitemap, "a whole site, by its sitemap"},
}

type kind struct{ Type, Words string }

// Kinds returns the kinds for the form.
func (attachment) Kinds() []kind { return kinds }

// Kinds returns the kinds for the form.
func (feedView) Kinds() []kind { return kinds }

func (a attachment) screen() screen {
	return screen{Title: "Attach a source to " + a.Feed.Name, Template: "attach", Data: a}
}

// showAttachSource answers GET /console/feeds/{feed}/sources/new. The address may have the fields of the form.
func (c *Console) showAttachSource(v *visit) (screen, error) {
	feed, err := c.feed(v)
	return attachment{Feed: feed, trial: c.readTrial(v.URL.Query().Get)}.screen(), err
}

func (c *Console) readAttachment(v *visit) (*attachment, error) {
	feed, err := c.feed(v)
	typed := attachment{
		Feed:  feed,
		ID:    strings.TrimSpace(v.PostFormValue("source")),
		trial: c.readTrial(v.PostFormValue),
	}
	typed.Closed = true
	return &typed, err
}

// tryForFeed answers POST /console/feeds/{feed}/sources/try: what a source would give, if it may be attached. Nothing
// is stored. Requests to addresses of their choice are limited for each organization.
func (c *Console) tryForFeed(v *visit, typed *attachment) (string, error) {
	if _, err := c.Commands.FindSourceAt(v.Context(), command.SourceAt{
		Type:     typed.Type,
		URL:      typed.Where,
		Timezone: typed.Timezone,
	}); err != nil {
		return "", err
	}
	if err := c.Limiter.Take(v.Context(), v.organization()); err != nil {
		return "", err
	}
	return "", c.run(v.Context(), v.organization(), &typed.trial)
}

// attachSource answers POST /console/feeds/{feed}/sources/new.
func (c *Console) attachSource(v *visit, typed *attachment) (string, error) {
	in := command.AttachSource{FeedID: typed.Feed.ID, SourceType: typed.Type}
	var err error
	if typed.ID != "" {
		var ok bool
		if in.SourceID, ok = wire.ParseUUID(typed.ID); !ok {
			return "", wire.Fail(wire.Invalid, "sourceId", "must be one that your operator gave you")
		}
	} else if in.SourceID, err = c.Commands.SourceAt(v.Context(), v.caller(), command.SourceAt{
		FeedID:   typed.Feed.ID,
		Type:     typed.Type,
		URL:      typed.Where,
		Timezone: typed.Timezone,
	}); err != nil {
		return "", err
	}
	attached, err := c.Commands.AttachSource(v.Context(), v.caller(), in)
	next := v.to("/feeds/" + typed.Feed.ID.String() + "?done=attached")
	return c.changed(v, attached.Position, err, next, feeds.ReadModel.Name, sources.ReadModel.Name)
}

// detachSource answers POST /console/feeds/{feed}/sources/{association}/detach.
func (c *Console) detachSource(v *visit) (string, error) {
	feed := v.id("feed")
	detached, err := c.Commands.DetachSource(v.Context(), v.caller(), command.DetachSource{
		FeedID:        feed,
		AssociationID: v.id("association"),
	})
	next := v.to("/feeds/" + feed.String() + "?done=detached")
	return c.changed(v, detached.Position, err, next, feeds.ReadModel.Name, items.ReadModel.Name)
}
