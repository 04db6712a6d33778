package console

import (
	"net/http"
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
	r.Post("/feeds/{feed}/sources/new", c.attachForm(c.attachSource))
	r.Post("/feeds/{feed}/sources/try", c.attachForm(c.tryForFeed))
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

// attachScreen shows the form.
func attachScreen(typed attachment) screen {
	typed.Types = source.Types()
	return screen{Title: "Attach a source to " + typed.Feed.Name, Template: "attach", Data: typed}
}

// showAttachSource answers GET /console/feeds/{feed}/sources/new. The address may have the fields of the form.
func (c *Console) showAttachSource(v *visit) (screen, error) {
	feed, err := c.feed(v)
	values := v.URL.Query()
	return attachScreen(attachment{Feed: feed, trial: trial{
		Type:     values.Get("type"),
		Where:    values.Get("where"),
		Timezone: values.Get("timezone"),
	}}), err
}

// attachForm serves the form. If submit returns no address to go to, the form is shown with the result of its trial.
func (c *Console) attachForm(submit func(*visit, *attachment) (next string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := r.Context().Value(visitKey{}).(*visit)
		feed, err := c.feed(v)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		typed := attachment{
			Feed: feed,
			ID:   strings.TrimSpace(r.PostFormValue("source")),
			trial: trial{
				Type:     r.PostFormValue("type"),
				Where:    strings.TrimSpace(r.PostFormValue("where")),
				Timezone: strings.TrimSpace(r.PostFormValue("timezone")),
				Now:      c.Now().UTC(),
				Closed:   true,
			},
		}
		next, err := submit(v, &typed)
		c.submitted(w, r, next, err, &typed.remarks, func() screen { return attachScreen(typed) })
	}
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
	if err != nil {
		return "", err
	}
	c.await(v.Context(), attached.Position, feeds.ReadModel.Name, sources.ReadModel.Name)
	return v.to("/feeds/" + typed.Feed.ID.String() + "?done=attached"), nil
}

// detachSource answers POST /console/feeds/{feed}/sources/{association}/detach.
func (c *Console) detachSource(v *visit) (string, error) {
	feed, err := v.id("feed")
	if err != nil {
		return "", err
	}
	association, err := v.id("association")
	if err != nil {
		return "", err
	}
	detached, err := c.Commands.DetachSource(v.Context(), v.caller(), command.DetachSource{
		FeedID:        feed,
		AssociationID: association,
	})
	if err != nil {
		return "", err
	}
	c.await(v.Context(), detached.Position, feeds.ReadModel.Name, items.ReadModel.Name)
	return v.to("/feeds/" + feed.String() + "?done=detached"), nil
}
