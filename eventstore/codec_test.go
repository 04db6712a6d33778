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

func TestPersonOf(t *testing.T) {
	t.Parallel()
	forged := eventstore.MadeBy("ann", "operator:eve")
	for actor, want := range map[string]string{
		"console:ann": "ann",
		eventstore.PersonActor(eventstore.MadeBy("ann", "operator:bob")):  "ann",
		eventstore.PersonActor(eventstore.MadeBy(forged, "operator:bob")): forged,
		"console:Ann (by the river)":                                      "Ann",
		"console: (by operator)":                                          " (by operator)",
		"key:ab12CD34":                                                    "",
	} {
		if got, is := eventstore.PersonOf(actor); is != (want != "") || is && got != want {
			t.Errorf("%s: %q %t, want %q", actor, got, is, want)
		}
	}
}

func TestSameJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, "{ \"b\": [2],\n\"a\": 1 }", true},
		{`"é"`, `"\u00e9"`, true},
		{`1.0`, `1`, true},
		{`1e2`, `100`, true},
		{`[1,2]`, `[2,1]`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`1`, `"1"`, false},
		{`{"a":null}`, `{}`, false},
		{`null`, `false`, false},
		{`{`, `{`, true},
		{`{`, `{ `, false},
	} {
		if got := eventstore.SameJSON(eventstore.JSON(tt.a), eventstore.JSON(tt.b)); got != tt.want {
			t.Errorf("%s and %s: %t", tt.a, tt.b, got)
		}
	}
}
