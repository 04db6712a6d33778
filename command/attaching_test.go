package command_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestAttach_knownSource shows that an attachment records it if the happenings of its source are known.
func TestAttach_knownSource(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	known := f.site()
	f.Walks = walked{known: true}
	for _, site := range []uuid.UUID{known, f.site()} {
		concerts := f.feed()
		in := command.AttachSource{FeedID: concerts.ID, SourceType: "site", SourceID: site}
		must.Get(f.AttachSource(t.Context(), f.by, in))(t)
		recorded := processtest.Events(t, f.Store, eventstore.Start, eventstore.Categories(feed.Aggregate.Category))
		event, err := feed.Events.Decode(&recorded[len(recorded)-1])
		e, is := event.(feed.SourceAttached)
		assert.True(t, err == nil && is && e.Known == (site == known), "attached: %+v, %v", event, err)
	}
}

func TestAttachAndDetach(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	concerts, site := f.feed(), f.site()
	in := command.AttachSource{FeedID: concerts.ID, SourceType: "site", SourceID: site}
	first := must.Get(f.AttachSource(t.Context(), f.by, in))(t)
	must.Equal(t, len(first.Value.Associations), 1, "associations: %+v", first.Value.Associations)
	association := first.Value.Associations[0].ID
	want := []feed.Association{{
		ID:         association,
		SourceType: "site",
		SourceID:   site,
		At:         noon,
	}}
	again, err := f.AttachSource(t.Context(), f.by, in)
	if diff := cmp.Diff([][]feed.Association{want, want}, [][]feed.Association{first.Value.Associations,
		again.Value.Associations}); diff != "" || err != nil {
		t.Errorf("associations (-want +got), %v:\n%s", err, diff)
	}
	for _, tt := range []struct {
		in    command.AttachSource
		kind  command.Kind
		field string
	}{
		{command.AttachSource{FeedID: concerts.ID, SourceType: "rss", SourceID: site}, command.Malformed, "sourceType"},
		{command.AttachSource{FeedID: concerts.ID, SourceType: "sitemap", SourceID: site}, command.Invalid, "sourceType"},
		{command.AttachSource{FeedID: concerts.ID, SourceType: "site", SourceID: uuid.New()}, command.NotFound, "sourceId"},
		{command.AttachSource{FeedID: uuid.New(), SourceType: "site", SourceID: site}, command.NotFound, ""},
	} {
		_, err := f.AttachSource(t.Context(), f.by, tt.in)
		refused(t, err, tt.kind, tt.field)
	}
	// the source's id, not the association's
	_, err = f.DetachSource(t.Context(), f.by, command.DetachSource{FeedID: concerts.ID, AssociationID: site})
	refused(t, err, command.NotFound, "")
	must.Get(f.DetachSource(t.Context(), f.by, command.DetachSource{
		FeedID:        concerts.ID,
		AssociationID: association,
	}))(t)
	_, err = f.DetachSource(t.Context(), f.by, command.DetachSource{FeedID: concerts.ID, AssociationID: association})
	refused(t, err, command.NotFound, "")
}
