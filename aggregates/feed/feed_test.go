package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
)

var (
	org    = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	reader = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	other  = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	site   = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	link   = uuid.MustParse("55555555-5555-4555-8555-555555555555")
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	settings = feed.Settings{Name: "Concerts", Description: "In town", Config: feed.Config{Version: 1}}
	created  = feed.Created{
		Organization: org,
		Enabled:      true,
		At:           noon,
		Settings:     feed.Settings{Name: "Concerts", Description: "In town", Config: feed.Config{Version: 1}},
	}
	registered = feed.Registered{
		Organization: org,
		FeedType:     feed.TypeNews,
		Name:         "Local news",
		At:           noon,
	}
	attached = feed.SourceAttached{
		AssociationID: link,
		SourceID:      site,
		SourceType:    "site",
		At:            noon,
	}
	shared = feed.Shared{With: reader, At: noon}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[feed.Event](t, feed.Events, created, registered, attached, shared,
		feed.Revised{Settings: feed.Settings{Name: "Gigs", Description: "In town", Config: feed.Config{Version: 1.5}},
			At: noon},
		feed.Enabled{By: feed.ByAPI, At: noon}, feed.Disabled{By: feed.ByAdmin, Reason: "maintenance", At: noon},
		feed.SourceDetached{AssociationID: link, SourceID: site, At: noon},
		feed.Unshared{With: reader, At: noon}, feed.Deleted{At: noon})
}

func TestCreate(t *testing.T) {
	t.Parallel()
	scenario := aggregatetest.Stream(t, feed.Aggregate).
		When(feed.Create{
			Organization: org,
			Settings:     settings,
			Enabled:      true,
			At:           noon,
		}).Then(created)
	s := scenario.State()
	assert.True(t, s.EnabledBy == feed.BySystem && s.EnabledReason == "" && s.VisibleTo(org) && !s.VisibleTo(other),
		"state of a new feed: %+v", s)
}

func TestReviseMergesAndSwitches(t *testing.T) {
	t.Parallel()
	name, off, on := "Gigs", false, true
	aggregatetest.Stream(t, feed.Aggregate).Of(created).
		When(feed.Revise{
			Organization: org,
			Name:         &name,
			Enabled:      &off,
			By:           feed.ByAPI,
			At:           noon,
		}).
		Then(
			feed.Revised{Settings: feed.Settings{Name: "Gigs", Description: "In town", Config: feed.Config{Version: 1}},
				At: noon},
			feed.Disabled{By: feed.ByAPI, At: noon}).
		When(feed.Revise{
			Organization: org,
			Enabled:      &on,
			By:           feed.ByAPI,
			At:           noon,
		}).
		Then(feed.Enabled{By: feed.ByAPI, At: noon})
}

// A feed that has changed since it was read is not replaced; its sources and readers are not part of its settings.
func TestRevise_changedSinceSeen(t *testing.T) {
	t.Parallel()
	mine, theirs, later := "Mine", "Theirs", noon.Add(time.Second)
	revised := feed.Revised{Settings: created.Settings, At: later}
	revised.Name = theirs
	aggregatetest.Stream(t, feed.Aggregate).Of(created, attached, shared).
		When(feed.Revise{
			Organization: org,
			Seen:         noon,
			Name:         &theirs,
			At:           later,
		}).Then(revised).
		When(feed.Revise{
			Organization: org,
			Seen:         noon,
			Name:         &mine,
			At:           later,
		}).Refused(feed.ErrRevisedSince)
}

func TestAttachAndDetachSource(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, feed.Aggregate).Of(created).
		When(feed.AttachSource{
			Organization:  org,
			AssociationID: link,
			SourceID:      site,
			SourceType:    "site",
			At:            noon,
		}).
		Then(attached).
		When(feed.AttachSource{
			Organization:  org,
			AssociationID: uuid.New(),
			SourceID:      site,
			SourceType:    "site",
			At:            noon,
		}).
		Then(). // it is attached already
		When(feed.DetachSource{Organization: org, AssociationID: link, At: noon}).
		Then(feed.SourceDetached{AssociationID: link, SourceID: site, At: noon}).
		When(feed.DetachSource{Organization: org, AssociationID: link, At: noon}).
		Refused(feed.ErrUnknownAssociation)
}

func TestShare_readOnly(t *testing.T) {
	t.Parallel()
	scenario := aggregatetest.Stream(t, feed.Aggregate).Of(created).
		When(feed.Share{FeedType: feed.TypeEvent, With: reader, At: noon}).Then(shared)
	if s := scenario.State(); !s.VisibleTo(reader) || s.VisibleTo(other) {
		t.Errorf("visible to reader %t, to another %t", s.VisibleTo(reader), s.VisibleTo(other))
	}
	name := "Mine now"
	for _, command := range []feed.Command{
		feed.Revise{Organization: reader, Name: &name}, feed.Delete{Organization: reader},
		feed.AttachSource{Organization: reader, SourceID: site}, feed.DetachSource{Organization: reader, AssociationID: link},
	} {
		t.Run(fmt.Sprintf("%T", command), func(t *testing.T) {
			t.Parallel()
			aggregatetest.Stream(t, feed.Aggregate).Of(created, attached, shared).When(command).Refused(feed.ErrForbidden)
		})
	}
	scenario.When(feed.Unshare{FeedType: feed.TypeEvent, With: reader, At: noon}).
		Then(feed.Unshared{With: reader, At: noon})
	assert.True(t, !scenario.State().VisibleTo(reader), "still visible after unshare")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, feed.Aggregate).Of(created).
		When(feed.Delete{Organization: org, At: noon}).Then(feed.Deleted{At: noon})
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	on, off, unknown, exists := true, false, feed.ErrUnknown, feed.ErrExists
	register := feed.Register{Organization: org, FeedType: feed.TypeNews, Name: "Local news"}
	aggregatetest.Table(t, feed.Aggregate).
		State("none").
		State("enabled", created).
		State("disabled", created, feed.Disabled{At: noon}).
		State("registered", registered).
		State("deleted", created, feed.Deleted{At: noon}).
		When(feed.Create{Organization: org}, "Created", "", "", exists, unknown).
		When(feed.Create{Organization: other}, "Created", exists, exists, exists, unknown).
		When(register, "Registered", exists, exists, "", exists).
		When(feed.Register{Organization: other, FeedType: feed.TypeNews, Name: "Local news"}, "Registered", exists, exists,
			exists, exists).
		When(feed.Revise{Organization: org, Enabled: &on}, unknown, "", "Enabled", unknown, unknown).
		When(feed.Revise{Organization: org, Enabled: &off}, unknown, "Disabled", "", unknown, unknown).
		When(feed.AttachSource{Organization: org, SourceID: site}, unknown, "SourceAttached", "SourceAttached", unknown,
			unknown).
		When(feed.Share{FeedType: feed.TypeEvent, With: reader}, unknown, "Shared", "Shared", unknown, unknown).
		When(feed.Share{FeedType: feed.TypeNews, With: reader}, unknown, unknown, unknown, "Shared", unknown).
		When(feed.Unshare{FeedType: feed.TypeEvent, With: reader}, unknown, "", "", unknown, unknown).
		When(feed.Share{FeedType: feed.TypeEvent, With: org}, unknown, "", "", unknown, unknown).
		When(feed.Delete{Organization: org}, unknown, "Deleted", "Deleted", unknown, unknown).
		When(feed.Delete{Organization: other}, unknown, unknown, unknown, unknown, unknown).
		When(feed.Revise{Organization: other}, unknown, unknown, unknown, unknown, unknown).
		When(feed.AttachSource{Organization: other, SourceID: site}, unknown, unknown, unknown, unknown, unknown).
		When(feed.DetachSource{Organization: other, AssociationID: link}, unknown, unknown, unknown, unknown, unknown)
}
