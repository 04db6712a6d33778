package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

func (c *Console) searchRoutes(r chi.Router) { r.Get("/search", c.handle(c.search)) }

// searchResults is the number of results of a kind.
const searchResults = 10

// hit is a result of a search: what it is, and when it was or will be.
type hit struct {
	Kind, Name, Path string
	About            string    // Optional.
	At               time.Time // Optional.
}

// searchPage is the result of a search.
type searchPage struct {
	Text string
	Hits []hit
	More bool // whether a kind has more than searchResults
}

func (p *searchPage) add(h hit) {
	kind := 0
	for _, other := range p.Hits {
		if other.Kind == h.Kind {
			kind++
		}
	}
	if kind == searchResults {
		p.More = true
		return
	}
	p.Hits = append(p.Hits, h)
}

// search answers GET /console/search. It redirects to the page of the only result.
func (c *Console) search(w http.ResponseWriter, v *visit) error {
	shown := searchPage{Text: strings.TrimSpace(v.URL.Query().Get("q"))}
	err := c.find(v, &shown)
	switch {
	case err != nil:
	case len(shown.Hits) == 1:
		http.Redirect(w, v.Request, shown.Hits[0].Path, http.StatusSeeOther)
	default:
		c.render(w, v.Request, screen{Title: "Search", Template: "search", Data: shown})
	}
	return err
}

func (c *Console) find(v *visit, shown *searchPage) error {
	if shown.Text == "" {
		return nil
	}
	if err := searchable("q", shown.Text); err != nil {
		return err
	}
	if id, ok := wire.ParseUUID(shown.Text); ok {
		return c.findID(v, shown, id)
	}
	return errors.Join(c.findDestinations(v, shown), c.findFeeds(v, shown), c.findItems(v, shown),
		c.findEvents(v, shown))
}

func (c *Console) findID(v *visit, shown *searchPage, id uuid.UUID) error {
	found, err := c.Queries.Locate(v.Context(), v.organization(), id)
	switch {
	case errors.Is(err, query.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	path := "/" + found.Kind + "s/" + id.String()
	switch found.Kind {
	case "delivery":
		path = "/deliveries/" + id.String()
	case "subscription":
		path = "/destinations/" + found.Of.String() + "#subscriptions"
	case "item":
		path = "/feeds/" + found.Of.String() + "/items/" + id.String()
	}
	shown.add(hit{Kind: found.Kind, Name: id.String(), Path: v.to(path)})
	return nil
}

// findDestinations finds destinations by name, host and external id, and by the external ids of their subscriptions.
func (c *Console) findDestinations(v *visit, shown *searchPage) error {
	found, total, err := c.Queries.FindDestinations(v.Context(), v.organization(), query.DestinationFilter{
		Text:  shown.Text,
		Limit: searchResults,
	})
	if err != nil {
		return err
	}
	shown.More = shown.More || total > searchResults
	for _, d := range found {
		shown.add(hit{
			Kind:  "destination",
			Name:  d.Name,
			Path:  v.destinationPath(d.ID, ""),
			About: statusWord(d.Status) + ", created",
			At:    d.CreatedAt,
		})
	}
	named, err := c.Queries.SubscriptionsNamed(v.Context(), v.organization(), shown.Text, searchResults)
	for _, s := range named {
		shown.add(hit{
			Kind:  "subscription",
			Name:  s.ExternalID,
			Path:  v.destinationPath(s.Destination, "") + "#subscriptions",
			About: "to " + s.Words() + ", created",
			At:    s.CreatedAt,
		})
	}
	return err
}

func (c *Console) findFeeds(v *visit, shown *searchPage) error {
	found, err := c.Queries.FeedsNamed(v.Context(), v.organization(), shown.Text, searchResults+1)
	for _, f := range found {
		shown.add(hit{Kind: "feed", Name: f.Name, Path: v.to("/feeds/" + f.ID.String())})
	}
	return err
}

// findItems finds items by the words of their titles.
func (c *Console) findItems(v *visit, shown *searchPage) error {
	found, err := c.Queries.ItemsTitled(v.Context(), v.organization(), strings.Fields(shown.Text), c.Now().UTC(),
		searchResults+1)
	for _, i := range found {
		shown.add(hit{
			Kind:  "item",
			Name:  i.Title,
			Path:  v.to("/feeds/" + i.Feed.String() + "/items/" + i.ID.String()),
			About: "of " + i.FeedName + ", on",
			At:    i.StartsAt,
		})
	}
	return err
}

// findEvents finds events by their subject.
func (c *Console) findEvents(v *visit, shown *searchPage) error {
	found, err := c.Queries.PublishedEvents(v.Context(), v.organization(), query.EventFilter{
		Subject: shown.Text,
		Limit:   searchResults + 1,
	})
	for _, e := range found {
		shown.add(hit{
			Kind:  "event",
			Name:  shown.Text,
			Path:  v.to("/events/" + e.ID.String()),
			About: e.Type + ", of",
			At:    e.Time,
		})
	}
	return err
}
