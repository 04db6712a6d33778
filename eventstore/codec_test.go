package eventstore_test

import (
	"errors"
	"testing"

	"carillon/eventstore"
)

type (
	fact       interface{ fact() }
	renamed    struct{ Name, Reason string }
	renamedV1  struct{ Title string } // as it was stored at first
	unrecorded struct{}
)

func (renamed) fact()    {}
func (unrecorded) fact() {}

var facts = eventstore.NewCodec(
	eventstore.Case[fact, renamed]("thing.renamed.v2"),
	eventstore.Upcast("thing.renamed.v1", func(old renamedV1) fact {
		return renamed{Name: old.Title, Reason: "not recorded"}
	}),
)

func TestEventsStoredUnderAnOldNameReadAsTodays(t *testing.T) {
	t.Parallel()
	got, err := facts.Decode(&eventstore.Recorded{Type: "thing.renamed.v1", Data: []byte(`{"Title":"Bell"}`)})
	if want := (renamed{Name: "Bell", Reason: "not recorded"}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	name, data, err := facts.Encode(got)
	if name != "thing.renamed.v2" || err != nil {
		t.Errorf("stored as %s, %v; want the name of today", name, err)
	}
	if again, err := facts.Decode(&eventstore.Recorded{Type: name, Data: data}); err != nil || again != got {
		t.Errorf("%+v, %v; want %+v", again, err, got)
	}
}

func TestCodec_unknownEventIsNeverSkipped(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]eventstore.Recorded{
		"an unknown name": {Type: "thing.renamed.v3", Data: []byte(`{}`)},
		"broken data":     {Type: "thing.renamed.v2", Data: []byte(`{"Name":1}`)},
		"broken old data": {Type: "thing.renamed.v1", Data: []byte(`{"Title":`)},
	} {
		if _, err := facts.Decode(&stored); !errors.Is(err, eventstore.ErrUndecodable) {
			t.Errorf("%s: %v, want ErrUndecodable", name, err)
		}
	}
	if _, _, err := facts.Encode(unrecorded{}); err == nil {
		t.Error("an event without a stored name was encoded")
	}
}
