package command_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/item"
	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon     = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	operator = command.Caller{Actor: "operator", RequestID: uuid.New()}
)

// feedSide is the use cases of feeds on a real store.
type feedSide struct {
	*command.Commands
	t      *testing.T
	org    uuid.UUID
	by     command.Caller // of org
	reader command.Caller // of another organization
}

// walked knows sources of which all is known.
type walked map[uuid.UUID]bool

func (w walked) SourceIsKnown(_ context.Context, source uuid.UUID) (bool, error) {
	return w[source], nil
}

// SourceAt implements command.Walks for a test that names sources by their ids.
func (w walked) SourceAt(context.Context, string, string, string) (uuid.UUID, error) {
	return uuid.Nil, nil
}

func onFeeds(t *testing.T) *feedSide {
	t.Helper()
	f := &feedSide{
		t:        t,
		Commands: &command.Commands{Store: nodetest.Start(t), Now: func() time.Time { return noon }, Walks: walked{}},
	}
	f.by, f.reader = f.organization("Town hall"), f.organization("Paper")
	f.org = f.by.Organization
	return f
}

func (f *feedSide) organization(name string) command.Caller {
	f.t.Helper()
	made := must.Get(f.RegisterOrganization(f.t.Context(), operator, command.RegisterOrganization{Name: name}))(f.t)
	return command.Caller{Organization: made.ID, Actor: "key:test", RequestID: uuid.New()}
}

func (f *feedSide) feed() command.Result[feed.State] {
	f.t.Helper()
	concerts, err := f.CreateFeed(f.t.Context(), f.by, command.CreateFeed{Name: "Concerts", Description: "In town"})
	must.OK(f.t, err)
	return concerts
}

func (f *feedSide) site() uuid.UUID {
	f.t.Helper()
	made := must.Get(f.RegisterSource(f.t.Context(), operator, command.RegisterSource{
		Type: "site",
		URL:  "https://example.org/" + uuid.NewString(),
	}))(f.t)
	return made.ID
}

// refused checks a refusal: its kind and the field that it names.
func refused(t *testing.T, err error, kind command.Kind, field string) {
	t.Helper()
	var refusal *command.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("error = %v, want a refusal", err)
		return
	}
	assert.True(t, refusal.Kind == kind && refusal.Field == field && refusal.Message != "",
		"refusal = %+v, want kind %d naming %q", refusal, kind, field)
}

func TestKeysAreIssuedWithTheirHashOnly(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	expiry := noon.Add(time.Hour + time.Nanosecond)
	issued, err := f.IssueKey(t.Context(), operator, command.IssueKey{
		Organization: f.org,
		Name:         "web",
		ExpiresAt:    &expiry,
	})
	must.OK(t, err)
	secret := issued.Value.Reveal()[12:]
	for recorded, err := range f.Store.Read(t.Context(), organization.Aggregate.Stream(f.org), 0) {
		must.OK(t, err)
		assert.True(t, !strings.Contains(string(recorded.Data), secret), "the secret is in the log")
		event := must.Get(organization.Events.Decode(&recorded))(t)
		if e, ok := event.(organization.KeyIssued); ok {
			key, ends := issued.Value, noon.Add(time.Hour)
			assert.True(t, e.KeyID == key.ID && bytes.Equal(e.Hash, key.Hash()) && e.ExpiresAt.Equal(ends), "issued = %+v", e)
		}
	}
	revoke := command.RevokeKey{Organization: f.org, KeyID: issued.Value.ID}
	must.Get(f.RevokeKey(t.Context(), operator, revoke))(t)
	revoke.Organization = f.reader.Organization
	_, err = f.RevokeKey(t.Context(), operator, revoke)
	refused(t, err, command.NotFound, "")
	_, err = f.IssueKey(t.Context(), operator, command.IssueKey{Organization: uuid.New()})
	refused(t, err, command.NotFound, "")
	_, err = f.IssueKey(t.Context(), operator, command.IssueKey{Organization: f.org, ExpiresAt: &noon})
	refused(t, err, command.Malformed, "expiresAt")
	_, err = f.RegisterOrganization(t.Context(), operator, command.RegisterOrganization{})
	refused(t, err, command.Malformed, "name")
}

func TestRegisterSource(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	tests := map[string]struct {
		in    command.RegisterSource
		field string // "" if it is accepted
	}{
		"a page": {command.RegisterSource{
			Type:     "site",
			URL:      "https://example.org/a?b=c",
			Timezone: "Europe/Rome",
		}, ""},
		"a sitemap":             {command.RegisterSource{Type: "sitemap", URL: "http://example.org/sitemap.xml"}, ""},
		"an account":            {command.RegisterSource{Type: "tiktok", Handle: "@town.hall_1"}, ""},
		"no type":               {command.RegisterSource{URL: "https://example.org/"}, "type"},
		"a type of another age": {command.RegisterSource{Type: "myspace", Handle: "x"}, "type"},
		"a page without url":    {command.RegisterSource{Type: "siteIndexPage"}, "url"},
		"a calendar":            {command.RegisterSource{Type: "site", URL: "webcal://example.org/events.ics"}, ""},
		"a calendar by TLS":     {command.RegisterSource{Type: "site", URL: "webcals://example.org/events.ics"}, ""},
		"a relative url":        {command.RegisterSource{Type: "site", URL: "/events"}, "url"},
		"another scheme":        {command.RegisterSource{Type: "site", URL: "ftp://example.org/"}, "url"},
		"a url with a password": {command.RegisterSource{Type: "site", URL: "https://me:secret@example.org/"}, "url"},
		"a url too long": {command.RegisterSource{
			Type: "site",
			URL:  "https://example.org/" + strings.Repeat("x", 2048),
		}, "url"},
		"a url with U+0000":     {command.RegisterSource{Type: "site", URL: "https://example.org/\x00"}, "url"},
		"a page with a handle":  {command.RegisterSource{Type: "site", URL: "https://example.org/", Handle: "x"}, "handle"},
		"an account with a url": {command.RegisterSource{Type: "twitter", URL: "https://example.org/", Handle: "x"}, "url"},
		"an account unnamed":    {command.RegisterSource{Type: "instagram"}, "handle"},
		"an account ill named":  {command.RegisterSource{Type: "facebook", Handle: "a/b"}, "handle"},
		"a zone unknown": {command.RegisterSource{Type: "site", URL: "https://example.org/", Timezone: "Mars/Olympus"},
			"timezone"},
		"a zone of this server": {command.RegisterSource{Type: "site", URL: "https://example.org/", Timezone: "Local"},
			"timezone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			made, err := f.RegisterSource(t.Context(), operator, tt.in)
			if tt.field != "" {
				refused(t, err, command.Malformed, tt.field)
				return
			}
			must.OK(t, err)
			again, err := f.RegisterSource(t.Context(), operator, tt.in)
			if diff := cmp.Diff(made, again); diff != "" || err != nil {
				t.Errorf("the same again (-first +again):\n%s%v", diff, err)
			}
		})
	}
	_, err := f.CollectSource(t.Context(), operator, command.CollectSource{Source: uuid.New()})
	refused(t, err, command.NotFound, "")
}

func TestFeedTexts(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	concerts := f.feed()
	empty, zero := "", "a\x00b"
	for _, tt := range []struct {
		create command.CreateFeed
		revise command.ReviseFeed
		field  string
	}{
		{command.CreateFeed{Description: "D"}, command.ReviseFeed{Name: &empty}, "name"},
		{command.CreateFeed{Name: "N"}, command.ReviseFeed{Description: &empty}, "description"},
		{command.CreateFeed{Name: zero, Description: "D"}, command.ReviseFeed{Name: &zero}, "name"},
		{command.CreateFeed{Name: "N", Description: "\xff"}, command.ReviseFeed{Description: &zero}, "description"},
	} {
		_, err := f.CreateFeed(t.Context(), f.by, tt.create)
		refused(t, err, command.Malformed, tt.field)
		tt.revise.ID = concerts.ID
		_, err = f.ReviseFeed(t.Context(), f.by, tt.revise)
		refused(t, err, command.Malformed, tt.field)
	}
}

func TestRegisterFeed(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	in := command.RegisterFeed{
		ID:           uuid.New(),
		FeedType:     "news",
		Organization: f.org,
		Name:         "Local news",
	}
	for range 2 { // the same again changes nothing
		must.Equal(t, must.Get(f.RegisterFeed(t.Context(), operator, in))(t).ID, in.ID, "id")
	}
	for name, tt := range map[string]struct {
		change func(*command.RegisterFeed)
		kind   command.Kind
		field  string
	}{
		"another kind": {func(in *command.RegisterFeed) { in.FeedType = "weather" }, command.Malformed, "feedType"},
		"no name":      {func(in *command.RegisterFeed) { in.Name = "" }, command.Malformed, "name"},
		"of an unknown organization": {func(in *command.RegisterFeed) { in.Organization = uuid.New() }, command.NotFound,
			"organizationId"},
		"another's id": {func(in *command.RegisterFeed) { in.Organization = f.reader.Organization },
			command.Exists, "id"},
		"an id in other garb": {func(in *command.RegisterFeed) { in.FeedType = "event" }, command.Exists, "id"},
	} {
		other := in
		tt.change(&other)
		_, err := f.RegisterFeed(t.Context(), operator, other)
		t.Log(name)
		refused(t, err, tt.kind, tt.field)
	}
}

func TestGiveFeedback(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	concerts, happening := f.feed(), uuid.New()
	id := item.ID(concerts.ID, happening)
	f.add(concerts.ID, happening)
	in := command.GiveFeedback{
		FeedID:  concerts.ID,
		ItemID:  id,
		Rating:  "positive",
		Comment: strings.Repeat("é", 5000),
	}
	given := map[uuid.UUID]bool{}
	for range 2 {
		feedback := must.Get(f.GiveFeedback(t.Context(), f.by, in))(t)
		given[feedback.ID] = true
	}
	assert.Equal(t, len(given), 2, "feedback is additive: two of them have one id")
	for _, tt := range []struct {
		change func(*command.GiveFeedback)
		by     command.Caller
		kind   command.Kind
		field  string
	}{
		{func(in *command.GiveFeedback) { in.Rating = "great" }, f.by, command.Malformed, "rating"},
		{func(in *command.GiveFeedback) { in.Rating = "" }, f.by, command.Malformed, "rating"},
		{func(in *command.GiveFeedback) { in.Comment += "é" }, f.by, command.Malformed, "comment"},
		{func(in *command.GiveFeedback) { in.Comment = "\x00" }, f.by, command.Malformed, "comment"},
		{func(in *command.GiveFeedback) { in.ItemID = uuid.New() }, f.by, command.NotFound, ""},
		{func(in *command.GiveFeedback) { in.FeedID = uuid.New() }, f.by, command.NotFound, ""},
		{func(in *command.GiveFeedback) { in.FeedID = f.feed().ID }, f.by, command.NotFound, ""},
		{func(*command.GiveFeedback) {}, f.reader, command.NotFound, ""},
	} {
		other := in
		tt.change(&other)
		_, err := f.GiveFeedback(t.Context(), tt.by, other)
		refused(t, err, tt.kind, tt.field)
	}
	share := command.ShareFeed{FeedType: "event", FeedID: concerts.ID, Organization: f.reader.Organization}
	must.Get(f.ShareFeed(t.Context(), operator, share))(t)
	must.Get(f.GiveFeedback(t.Context(), f.reader, in))(t)
}

// add makes an item as the curation of feeds does.
func (f *feedSide) add(feed, happening uuid.UUID) {
	f.t.Helper()
	must.Get(item.Aggregate.Execute(f.t.Context(), f.Store, item.ID(feed, happening), item.Add{
		FeedID:      feed,
		HappeningID: happening,
		SourceID:    uuid.New(),
		At:          noon,
	}, item.Options{Metadata: eventstore.Metadata{Actor: "feed_curation"}}))(f.t)
}

// A use case of feeds that needs a store that is away returns that error to its caller.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	concerts, site := f.feed(), f.site()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"create": func() error {
			_, err := f.CreateFeed(ctx, f.by, command.CreateFeed{Name: "N", Description: "D"})
			return err
		},
		"revise": func() error { _, err := f.ReviseFeed(ctx, f.by, command.ReviseFeed{ID: concerts.ID}); return err },
		"delete": func() error { _, err := f.DeleteFeed(ctx, f.by, command.DeleteFeed{ID: concerts.ID}); return err },
		"attach": func() error {
			_, err := f.AttachSource(ctx, f.by, command.AttachSource{FeedID: concerts.ID, SourceType: "site", SourceID: site})
			return err
		},
		"feedback": func() error {
			_, err := f.GiveFeedback(ctx, f.by, command.GiveFeedback{FeedID: concerts.ID, Rating: "neutral"})
			return err
		},
		"key": func() error {
			_, err := f.IssueKey(ctx, operator, command.IssueKey{Organization: f.org})
			return err
		},
		"share": func() error {
			_, err := f.ShareFeed(ctx, operator, command.ShareFeed{FeedType: "event", FeedID: concerts.ID, Organization: f.org})
			return err
		},
	}
	for name, call := range calls {
		err := call()
		var refusal *command.Refusal
		assert.True(t, err != nil && !errors.As(err, &refusal) && errors.Is(err, eventstore.ErrUnavailable),
			"%s: %v, want that the store is unavailable", name, err)
	}
}

func TestFeedsFromCreateToDelete(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	concerts := f.feed()
	want := feed.State{
		Organization: f.org,
		FeedType:     feed.TypeEvent,
		Status:       feed.StatusEnabled,
		EnabledBy:    feed.BySystem,
		Settings:     feed.Settings{Name: "Concerts", Description: "In town", Config: feed.Config{Version: 1}},
		CreatedAt:    noon,
		UpdatedAt:    noon,
	}
	assert.Same(t, concerts.Value, want)
	name, off, version := "Gigs", false, 2.0
	later := noon.Add(time.Hour)
	f.Now = func() time.Time { return later.Add(time.Nanosecond) }
	revised, err := f.ReviseFeed(t.Context(), f.by, command.ReviseFeed{
		ID:            concerts.ID,
		Name:          &name,
		Enabled:       &off,
		ConfigVersion: &version,
	})
	must.OK(t, err)
	want.Status, want.EnabledBy, want.UpdatedAt = feed.StatusDisabled, feed.ByAPI, later
	want.Settings.Name, want.Settings.Config.Version = "Gigs", 2
	assert.Same(t, revised.Value, want)
	must.Get(f.DeleteFeed(t.Context(), f.by, command.DeleteFeed{ID: concerts.ID}))(t)
	_, err = f.DeleteFeed(t.Context(), f.by, command.DeleteFeed{ID: concerts.ID})
	refused(t, err, command.NotFound, "")
	_, err = f.ReviseFeed(t.Context(), f.by, command.ReviseFeed{ID: concerts.ID})
	refused(t, err, command.NotFound, "")
}

func TestSharedFeedsAreReadNotChanged(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	concerts := f.feed()
	share := command.ShareFeed{FeedType: "event", FeedID: concerts.ID, Organization: f.reader.Organization}
	_, err := f.DeleteFeed(t.Context(), f.reader, command.DeleteFeed{ID: concerts.ID})
	refused(t, err, command.NotFound, "")
	must.Get(f.ShareFeed(t.Context(), operator, share))(t)
	_, err = f.DeleteFeed(t.Context(), f.reader, command.DeleteFeed{ID: concerts.ID})
	refused(t, err, command.Forbidden, "")
	must.Get(f.UnshareFeed(t.Context(), operator, command.UnshareFeed(share)))(t)
	_, err = f.DeleteFeed(t.Context(), f.reader, command.DeleteFeed{ID: concerts.ID})
	refused(t, err, command.NotFound, "")
	share.Organization = uuid.New()
	_, err = f.ShareFeed(t.Context(), operator, share)
	refused(t, err, command.NotFound, "organizationId")
	share.Organization, share.FeedType = f.reader.Organization, "news"
	_, err = f.ShareFeed(t.Context(), operator, share)
	refused(t, err, command.NotFound, "")
}
