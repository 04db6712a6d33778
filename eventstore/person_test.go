package eventstore_test

import (
	"testing"

	"carillon/eventstore"
)

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
