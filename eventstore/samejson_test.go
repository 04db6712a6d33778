package eventstore_test

import (
	"testing"

	"carillon/eventstore"
)

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
