package console

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/facts"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/query"
)

func (c *Console) feedRoutes(r chi.Router) {
	r.Get("/feeds", c.page(c.listFeeds))
	r.Get("/feeds/new", c.page(c.showNewFeed))
	r.Post("/feeds/new", form(c, readFeedSettings, c.createFeed))
	r.Get("/feeds/{feed}", c.page(c.showFeed))
	r.Get("/feeds/{feed}/edit", c.page(c.showEditFeed))
	r.Post("/feeds/{feed}/edit", form(c, readFeedSettings, c.editFeed))
	r.Get("/feeds/{feed}/delete", c.page(c.confirmFeed))
	r.Post("/feeds/{feed}/delete", c.act(c.deleteFeed))
	c.feedSourceRoutes(r)
	r.Get("/feeds/{feed}/items/{item}", c.page(c.showItem))
	r.Post("/feeds/{feed}/items/{item}/feedback", c.act(c.giveFeedback))
}

// maxFeeds bounds the list of feeds.
const maxFeeds = 200

// listFeeds answers GET /console/feeds.
func (c *Console) listFeeds(v *visit) (screen, error) {
	list := []query.Feed{}
	for feed, err := range c.Queries.Feeds(v.Context(), v.organization()) {
		if err != nil {
			return screen{}, err
		}
		if list = append(list, feed); len(list) == maxFeeds {
			break
		}
	}
	return screen{Title: "Feeds", Template: "feeds", Data: list}, nil
}

// feedView is a month of a feed.
type feedView struct {
	query.Feed

	Month   month
	Items   []shownItem
	Paging  paging
	Sources []query.FeedSource
}

// Filling reports whether a backfill is in progress.
func (f feedView) Filling() bool {
	return slices.ContainsFunc(f.Sources, func(s query.FeedSource) bool { return s.Backfilling })
}

const cards = 24 // of a page; calendarItems bounds the items of a calendar
const calendarItems = 100

// showFeed answers GET /console/feeds/{feed}.
func (c *Console) showFeed(v *visit) (screen, error) {
	feed, err := c.feed(v)
	if err != nil {
		return screen{}, err
	}
	now := c.Now().UTC()
	shown := feedView{Feed: feed, Paging: pagingOf(v.URL)}
	if shown.Month, err = readMonth(v.URL.Query().Get("month"), now); err != nil {
		return screen{}, err
	}
	asked := query.ItemsQuery{
		Since:   shown.Month.Weeks[0][0].At,
		Until:   shown.Month.ends,
		OrderBy: query.OrderByOccurrence,
		Limit:   calendarItems,
		Now:     now,
	}
	all, err := c.Queries.Items(v.Context(), v.organization(), feed.ID, asked)
	if err != nil {
		return screen{}, err
	}
	known, err := readItems(all.Items)
	if err != nil {
		return screen{}, err
	}
	shown.Month.fill(known, all.Total)
	asked.Since, asked.Until = shown.Month.from, shown.Month.until
	asked.Limit, asked.Offset, asked.Source = cards, (shown.Paging.Number-1)*cards, true
	page, err := c.Queries.Items(v.Context(), v.organization(), feed.ID, asked)
	if err != nil {
		return screen{}, err
	}
	shown.Paging.Total, shown.Paging.size = page.Total, cards
	if shown.Items, err = readItems(page.Items); err != nil {
		return screen{}, err
	}
	shown.Sources, err = c.Queries.FeedSources(v.Context(), v.organization(), feed.ID)
	return screen{Title: feed.Name, Template: "feed", Data: shown}, err
}

func (c *Console) feed(v *visit) (query.Feed, error) {
	return c.Queries.Feed(v.Context(), v.organization(), v.id("feed"))
}

// itemView is one item, with all its dates.
type itemView struct {
	Feed query.Feed
	Item shownItem
}

// showItem answers GET /console/feeds/{feed}/items/{item}.
func (c *Console) showItem(v *visit) (screen, error) {
	feed, err := c.feed(v)
	if err != nil {
		return screen{}, err
	}
	body, err := c.Queries.Item(v.Context(), v.organization(), feed.ID, v.id("item"), true, c.Now().UTC())
	if err != nil {
		return screen{}, err
	}
	item, err := readItem(body)
	return screen{Title: item.Title, Template: "item", Data: itemView{feed, item}}, err
}

// giveFeedback answers POST /console/feeds/{feed}/items/{item}/feedback.
func (c *Console) giveFeedback(v *visit) (string, error) {
	feed, id := v.id("feed"), v.id("item")
	given, err := c.Commands.GiveFeedback(v.Context(), v.caller(), command.GiveFeedback{
		FeedID:  feed,
		ItemID:  id,
		Rating:  v.PostFormValue("rating"),
		Comment: v.PostFormValue("comment"),
	})
	next := v.to("/feeds/" + feed.String() + "/items/" + id.String() + "?done=feedback")
	return c.changed(v, given.Position, err, next, items.ReadModel.Name)
}

// feedSettings are the settings of a feed, as in a form.
type feedSettings struct {
	remarks

	Name, Description string
	Enabled           bool

	// Seen is the state for which the form was opened: the organization if the feed is new, otherwise the time of its
	// last change.
	Seen string
	New  bool
	Back string
}

// typed returns the values by input.
func (s feedSettings) typed() map[string]string {
	return map[string]string{
		"name":        s.Name,
		"description": strings.ReplaceAll(s.Description, "\r\n", "\n"),
		"enabled":     onOff[s.Enabled],
	}
}

func (s feedSettings) screen() screen {
	title := "Edit " + s.Name
	if s.New {
		title = "New feed"
	}
	return screen{Title: title, Template: "feedsettings", Data: s}
}

func readFeedSettings(v *visit) (*feedSettings, error) {
	return &feedSettings{
		Name:        strings.TrimSpace(v.PostFormValue("name")),
		Description: v.PostFormValue("description"),
		Enabled:     v.PostFormValue("enabled") != "",
		Seen:        v.PostFormValue("seen"),
		Back:        v.to("/feeds"),
	}, nil
}

// showNewFeed answers GET /console/feeds/new.
func (c *Console) showNewFeed(v *visit) (screen, error) {
	return feedSettings{
		New:     true,
		Seen:    v.organization().String(),
		Enabled: true,
		Back:    v.to("/feeds"),
	}.screen(), nil
}

// createFeed answers POST /console/feeds/new.
func (c *Console) createFeed(v *visit, typed *feedSettings) (string, error) {
	typed.New = true
	if err := checkOrganization(v, &typed.Seen); err != nil {
		return "", err
	}
	made, err := c.Commands.CreateFeed(v.Context(), v.caller(), command.CreateFeed{
		Name:        typed.Name,
		Description: typed.Description,
		Enabled:     &typed.Enabled,
	})
	return c.changed(v, made.Position, err, v.to("/feeds/"+made.ID.String()+"?done=feed-created"), feeds.ReadModel.Name)
}

// showEditFeed answers GET /console/feeds/{feed}/edit.
func (c *Console) showEditFeed(v *visit) (screen, error) {
	shown, err := c.feedSettingsOf(v)
	return shown.screen(), err
}

func (c *Console) feedSettingsOf(v *visit) (feedSettings, error) {
	feed, err := c.feed(v)
	return feedSettings{
		Name:        feed.Name,
		Description: feed.Description,
		Enabled:     feed.Enabled,
		Seen:        iso(feed.UpdatedAt),
		Back:        v.to("/feeds/" + feed.ID.String()),
	}, err
}

// editFeed answers POST /console/feeds/{feed}/edit.
func (c *Console) editFeed(v *visit, typed *feedSettings) (string, error) {
	id := v.id("feed")
	typed.Back = v.to("/feeds/" + id.String())
	in := command.ReviseFeed{
		ID:          id,
		Name:        &typed.Name,
		Description: &typed.Description,
		Enabled:     &typed.Enabled,
	}
	if typed.Seen != "" {
		var err error
		if in.Seen, err = time.Parse(time.RFC3339Nano, typed.Seen); err != nil {
			return "", wire.Fail(wire.Invalid, "form", "does not say what it was opened for: open it again")
		}
	}
	changed, err := c.Commands.ReviseFeed(v.Context(), v.caller(), in)
	if err != nil && !errors.Is(err, feed.ErrRevisedSince) {
		return "", err
	}
	c.See(v.Context(), changed.Position, feeds.ReadModel.Name, items.ReadModel.Name)
	if err != nil {
		now, readErr := c.feedSettingsOf(v)
		typed.Now, typed.Seen = differing(typed.typed(), now.typed()), now.Seen
		return "", cmp.Or(readErr, error(&wire.Failure{Kind: wire.Conflict, Issue: changedMeanwhile, Cause: err}))
	}
	return typed.Back + "?done=saved", nil
}

// feedChange is the page that describes the effect of a change.
type feedChange struct {
	Feed   query.Feed
	Source *query.FeedSource // to detach; nil if the feed is deleted
}

// confirmFeed answers GET of changes that remove something.
func (c *Console) confirmFeed(v *visit) (screen, error) {
	feed, err := c.feed(v)
	if err != nil {
		return screen{}, err
	}
	shown := feedChange{Feed: feed}
	if chi.URLParam(v.Request, "association") == "" {
		return screen{Title: "Delete " + feed.Name, Template: "feedchange", Data: shown}, nil
	}
	all, err := c.Queries.FeedSources(v.Context(), v.organization(), feed.ID)
	for i := range all {
		if all[i].Association == v.id("association") {
			shown.Source = &all[i]
		}
	}
	if err == nil && shown.Source == nil {
		err = query.ErrNotFound
	}
	return screen{Title: "Detach a source of " + feed.Name, Template: "feedchange", Data: shown}, err
}

// deleteFeed answers POST /console/feeds/{feed}/delete.
func (c *Console) deleteFeed(v *visit) (string, error) {
	id := v.id("feed")
	deleted, err := c.Commands.DeleteFeed(v.Context(), v.caller(), command.DeleteFeed{ID: id})
	return c.changed(v, deleted.Position, err, v.to("/feeds?done=feed-deleted"), feeds.ReadModel.Name,
		items.ReadModel.Name, dispatching.Name, facts.Name)
}

// shownItem is an item on a page.
type shownItem struct {
	ID               uuid.UUID `json:"id"`
	Title            string    `json:"title"`
	ShortDescription string    `json:"shortDescription"`
	Description      string    `json:"description"` // without tags; see plain
	PrimaryImage     string    `json:"primaryImage"`
	PrimaryURL       string    `json:"primaryUrl"`
	AddedAt          time.Time `json:"addedToFeedAt"`
	Relevance        *float64  `json:"relevanceScore"`
	Time             struct {
		Timezone string `json:"timezone"`
	} `json:"time"`
	Location *struct {
		DisplayAddress string `json:"displayAddress"`
		Venue          *struct {
			Name    string `json:"name"`
			Address string `json:"address"`
		} `json:"venue"`
		Online *struct {
			Platform string `json:"platform"`
		} `json:"online"`
	} `json:"location"`
	Organizer *struct {
		Name string `json:"name"`
	} `json:"organizer"`
	Occurrence struct {
		Next    *shownDate  `json:"nextOccurrence"`
		InRange []shownDate `json:"occurrencesInRange"`
		Total   int         `json:"totalOccurrences"`
	} `json:"occurrence"`
	Source *struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	} `json:"source"`
}

type shownDate struct {
	Start  time.Time  `json:"startDateTime"`
	End    *time.Time `json:"endDateTime"`
	Status string     `json:"status"`
}

// Place returns where it takes place, in one line.
func (i shownItem) Place() string {
	switch l := i.Location; {
	case l == nil:
		return ""
	case l.DisplayAddress != "":
		return l.DisplayAddress
	case l.Venue != nil && l.Venue.Address != "":
		return l.Venue.Name + ", " + l.Venue.Address
	case l.Venue != nil:
		return l.Venue.Name
	case l.Online != nil:
		return "online: " + l.Online.Platform
	}
	return ""
}

// First returns the next date in the list.
func (i shownItem) First() *shownDate {
	switch {
	case i.Occurrence.Next != nil:
		return i.Occurrence.Next
	case len(i.Occurrence.InRange) > 0:
		return &i.Occurrence.InRange[0]
	}
	return nil
}

// More returns the number of further dates.
func (i shownItem) More() int { return max(0, len(i.Occurrence.InRange)-1) }
