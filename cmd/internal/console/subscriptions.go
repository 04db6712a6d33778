package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/facts"
	"carillon/eventstore"
	"carillon/projections/subscriptions"
	"carillon/query"
)

func (c *Console) subscriptionRoutes(r chi.Router) {
	r.Get("/destinations/{id}/subscriptions/new", c.page(c.showSubscription))
	r.Post("/destinations/{id}/subscriptions/new", c.subscriptionForm(c.subscribe))
	r.Get("/destinations/{id}/subscriptions/{subscription}/edit", c.page(c.showSubscription))
	r.Post("/destinations/{id}/subscriptions/{subscription}/edit", c.subscriptionForm(c.editSubscription))
	r.Get("/destinations/{id}/subscriptions/{subscription}/{change:enable|disable|delete}", c.page(c.confirmSubscription))
	r.Post("/destinations/{id}/subscriptions/{subscription}/{change:enable|disable}", c.act(c.switchSubscription))
	r.Post("/destinations/{id}/subscriptions/{subscription}/delete", c.act(c.deleteSubscription))
}

// eventChoice is the part of a form that chooses the events of a subscription.
type eventChoice struct {
	Groups []typeGroup
	Scope  string // all, feed_type:event, feed_type:news, feeds
	Feeds  []feedChoice
	Fewer  bool // whether there are more feeds than listed
}

// typeGroup is the types with the same first word.
type typeGroup struct {
	Name  string
	Types []typeChoice
}

// typeChoice is a type or wildcard to choose.
type typeChoice struct {
	Pattern  string
	Sentence string
	Chosen   bool
}

// feedChoice is a feed to choose. Its value is that of readPin.
type feedChoice struct {
	Value, Type, Name string
	Chosen            bool
}

// choiceOf returns the part of a form that shows settings.
func (c *Console) choiceOf(v *visit, chosen subscription.Settings) (eventChoice, error) {
	shown := eventChoice{Scope: cmp.Or(chosen.ScopeKind, subscription.ScopeAll)}
	if chosen.FeedType != "" {
		shown.Scope += ":" + chosen.FeedType
	}
	shown.Groups = c.typeGroups(chosen.EventTypes)
	feeds, err := c.Queries.FeedNames(v.Context(), v.organization(), maxFeedChoices+1)
	if err != nil {
		return shown, err
	}
	if shown.Fewer = len(feeds) > maxFeedChoices; shown.Fewer {
		feeds = feeds[:maxFeedChoices]
	}
	left := slices.Clone(chosen.Feeds)
	for _, f := range feeds {
		pin := subscription.Pin{FeedType: f.Type, FeedID: f.ID}
		shown.Feeds = append(shown.Feeds, feedChoice{
			Value:  pinValue(pin),
			Type:   f.Type,
			Name:   cmp.Or(f.Name, short(f.ID)),
			Chosen: slices.Contains(left, pin),
		})
		left = slices.DeleteFunc(left, func(p subscription.Pin) bool { return p == pin })
	}
	for _, pin := range left {
		shown.Feeds = append(shown.Feeds, feedChoice{
			Value:  pinValue(pin),
			Type:   pin.FeedType,
			Name:   pin.FeedID.String(),
			Chosen: true,
		})
	}
	return shown, nil
}

// typeGroups lists the types of the catalog by their first word, each group after its wildcard. Chosen patterns that
// are none of these come last.
func (c *Console) typeGroups(chosen []string) []typeGroup {
	left := slices.Clone(chosen)
	choose := func(pattern, sentence string) typeChoice {
		is := slices.Contains(left, pattern)
		left = slices.DeleteFunc(left, func(p string) bool { return p == pattern })
		return typeChoice{Pattern: pattern, Sentence: sentence, Chosen: is}
	}
	groups := []typeGroup{{Name: everyType, Types: []typeChoice{choose("*", everyTypeHint)}}}
	for _, t := range c.Commands.Catalog.Types() {
		if !t.CurrentlyEmitted && !slices.Contains(chosen, t.Name) {
			continue
		}
		name, _, _ := strings.Cut(t.Name, ".")
		if last := &groups[len(groups)-1]; last.Name == name {
			last.Types = append(last.Types, choose(t.Name, t.Description))
			continue
		}
		groups = append(groups, typeGroup{Name: name, Types: []typeChoice{
			choose(name+".*", everyOfGroupHint), choose(t.Name, t.Description),
		}})
	}
	if len(left) > 0 {
		other := typeGroup{Name: otherPatterns}
		for _, pattern := range slices.Clone(left) {
			other.Types = append(other.Types, choose(pattern, otherPatternHint))
		}
		groups = append(groups, other)
	}
	return groups
}

func pinValue(p subscription.Pin) string { return p.FeedType + "/" + p.FeedID.String() }

// readPin parses a chosen feed, such as event/7b4a….
func readPin(typed string) subscription.Pin {
	feedType, id, _ := strings.Cut(typed, "/")
	parsed, _ := wire.ParseUUID(id) // the command refuses uuid.Nil
	return subscription.Pin{FeedType: feedType, FeedID: parsed}
}

// readChoice parses the events that a form chooses. The command checks them.
func readChoice(values url.Values) subscription.Settings {
	chosen := subscription.Settings{EventTypes: values["types"]}
	chosen.ScopeKind, chosen.FeedType, _ = strings.Cut(values.Get("scope"), ":")
	if chosen.ScopeKind == subscription.ScopeFeeds {
		for _, typed := range values["feeds"] {
			chosen.Feeds = append(chosen.Feeds, readPin(typed))
		}
	}
	return chosen
}

// checkChosen refuses a choice of nothing or too much, in the words of the form.
func checkChosen(chosen subscription.Settings) error {
	var wrong []error
	if n := len(chosen.EventTypes); n == 0 || n > subscription.MaxEventTypes {
		wrong = append(wrong, wire.Fail(wire.BadBody, "eventTypes", noTypeChosen, subscription.MaxEventTypes))
	}
	if n := len(chosen.Feeds); chosen.ScopeKind == subscription.ScopeFeeds && (n == 0 || n > subscription.MaxPins) {
		wrong = append(wrong, wire.Fail(wire.BadBody, "feeds", noFeedChosen, subscription.MaxPins))
	}
	return errors.Join(wrong...)
}

// subscriptionView is the form of a subscription.
type subscriptionView struct {
	remarks

	Destination query.Destination
	Events      eventChoice
	ExternalID  string
	New         bool
	Seen        string              // the revision for which the form was opened; empty if the subscription is new
	Current     *query.Subscription // if it changed since the form was opened
	settings    subscription.Settings
}

func (s subscriptionView) screen() screen {
	title := "Edit a subscription of " + s.Destination.Name
	if s.New {
		title = "New subscription of " + s.Destination.Name
	}
	return screen{Title: title, Template: "subscription", Data: s}
}

// oneSubscription finds the destination and the subscription of the path. The latter is zero on the page of a new one.
func (c *Console) oneSubscription(v *visit) (to query.Destination, found query.Subscription, err error) {
	if to, err = c.destination(v); err != nil || chi.URLParam(v.Request, "subscription") == "" {
		return to, found, err
	}
	found, err = c.Queries.Subscription(v.Context(), v.organization(), to.ID, v.id("subscription").String())
	return to, found, err
}

// showSubscription answers GET /console/destinations/{id}/subscriptions/new and /{subscription}/edit.
func (c *Console) showSubscription(v *visit) (screen, error) {
	to, found, err := c.oneSubscription(v)
	if err != nil {
		return screen{}, err
	}
	shown := subscriptionView{Destination: to, ExternalID: found.ExternalID, New: found.ID == uuid.Nil}
	if !shown.New {
		shown.Seen = strconv.FormatInt(found.Revision, 10)
	}
	shown.Events, err = c.choiceOf(v, found.Settings)
	return shown.screen(), err
}

// subscriptionForm serves a form; see form.
func (c *Console) subscriptionForm(submit func(*visit, *subscriptionView) (next string, err error)) http.HandlerFunc {
	return form(c, c.readSubscription, func(v *visit, typed *subscriptionView) (next string, err error) {
		err = errors.Join(checkChosen(typed.settings),
			c.Commands.CheckSubscription(v.Context(), v.caller(), typed.settings))
		if err == nil {
			next, err = submit(v, typed)
		}
		if err != nil {
			var choiceErr error
			typed.Events, choiceErr = c.choiceOf(v, typed.settings)
			err = cmp.Or(choiceErr, err)
		}
		return next, err
	})
}

func (c *Console) readSubscription(v *visit) (*subscriptionView, error) {
	to, found, err := c.oneSubscription(v)
	typed := subscriptionView{
		Destination: to,
		ExternalID:  v.PostForm.Get("externalId"),
		New:         found.ID == uuid.Nil,
		Seen:        v.PostForm.Get("seen"),
		settings:    readChoice(v.PostForm),
	}
	typed.settings.ExternalID = typed.ExternalID
	return &typed, err
}

// subscribe answers POST /console/destinations/{id}/subscriptions/new.
func (c *Console) subscribe(v *visit, typed *subscriptionView) (string, error) {
	made, err := c.Commands.CreateSubscription(v.Context(), v.caller(), command.CreateSubscription{
		Destination: typed.Destination.ID,
		Settings:    typed.settings,
	})
	return c.subscriptionChanged(v, made.Position, err, "subscribed")
}

// subscriptionChanged is changed for a subscription.
func (c *Console) subscriptionChanged(
	v *visit, at eventstore.Position, refused error, done string,
) (string, error) {
	next := v.destinationPath(v.id("id"), done) + "#subscriptions"
	return c.changed(v, at, refused, next, subscriptions.ReadModel.Name, dispatching.Name,
		facts.Name)
}

// editSubscription answers POST /console/destinations/{id}/subscriptions/{subscription}/edit.
func (c *Console) editSubscription(v *visit, typed *subscriptionView) (string, error) {
	seen, err := strconv.ParseInt(typed.Seen, 10, 64)
	if err != nil {
		return "", wire.Fail(wire.Invalid, "form", "does not say what it was opened for: open it again")
	}
	in := command.ReviseSubscription{
		Destination: typed.Destination.ID,
		ID:          v.id("subscription"),
		Sets:        subscription.FieldsAll,
		Settings:    typed.settings,
		Expected:    new(eventstore.Revision(seen)),
	}
	if typed.ExternalID == "" {
		in.Sets &^= subscription.FieldExternalID
	}
	changed, err := c.Commands.ReviseSubscription(v.Context(), v.caller(), in)
	if errors.Is(err, subscription.ErrRevisedSince) {
		_, now, readErr := c.oneSubscription(v)
		typed.Current, typed.Seen = &now, strconv.FormatInt(now.Revision, 10)
		return "", cmp.Or(readErr, error(&wire.Failure{Kind: wire.Conflict, Issue: changedMeanwhile, Cause: err}))
	}
	return c.subscriptionChanged(v, changed.Position, err, "saved")
}

// subscriptionChange is the page that describes the effect of a change.
type subscriptionChange struct {
	Change       string
	Destination  query.Destination
	Subscription query.Subscription
}

// confirmSubscription answers GET of each change of a subscription.
func (c *Console) confirmSubscription(v *visit) (screen, error) {
	to, found, err := c.oneSubscription(v)
	shown := subscriptionChange{
		Change:       chi.URLParam(v.Request, "change"),
		Destination:  to,
		Subscription: found,
	}
	return screen{
		Title:    upperFirst(shown.Change) + " a subscription of " + to.Name,
		Template: "subscription-change",
		Data:     shown,
	}, err
}

// switchSubscription answers POST /console/destinations/{id}/subscriptions/{subscription}/enable and /disable.
func (c *Console) switchSubscription(v *visit) (string, error) {
	to, found, err := c.oneSubscription(v)
	if err != nil {
		return "", err
	}
	active, done := chi.URLParam(v.Request, "change") == "enable", "subscription-off"
	if active {
		done = "subscription-on"
	}
	changed, err := c.Commands.ReviseSubscription(v.Context(), v.caller(), command.ReviseSubscription{
		Destination: to.ID,
		ID:          found.ID,
		Active:      &active,
	})
	return c.subscriptionChanged(v, changed.Position, err, done)
}

// deleteSubscription answers POST /console/destinations/{id}/subscriptions/{subscription}/delete.
func (c *Console) deleteSubscription(v *visit) (string, error) {
	to, found, err := c.oneSubscription(v)
	if err != nil {
		return "", err
	}
	deleted, err := c.Commands.DeleteSubscription(v.Context(), v.caller(), command.DeleteSubscription{
		Destination: to.ID,
		ID:          found.ID,
	})
	return c.subscriptionChanged(v, deleted.Position, err, "unsubscribed")
}

// feedNames returns the names of feeds, if subscriptions name any.
func (c *Console) feedNames(v *visit, of []query.Subscription) (map[uuid.UUID]string, error) {
	names := map[uuid.UUID]string{}
	if !slices.ContainsFunc(of, func(s query.Subscription) bool { return len(s.Feeds) > 0 }) {
		return names, nil
	}
	feeds, err := c.Queries.FeedNames(v.Context(), v.organization(), maxFeedChoices)
	for _, f := range feeds {
		names[f.ID] = f.Name
	}
	return names, err
}
