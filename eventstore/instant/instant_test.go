package instant_test

import (
	"encoding/json"
	"testing"
	"time"

	"carillon/eventstore/instant"
	"carillon/eventstore/storetest/must"
)

func TestTextHasSixDigitsInUTC(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-11-21T12:00:00Z":                "2026-11-21T12:00:00.000000Z",
		"2026-11-21T13:30:00.5+01:30":         "2026-11-21T12:00:00.500000Z",
		"2026-11-21T12:00:00.123456Z":         "2026-11-21T12:00:00.123456Z",
		"2026-11-21T12:00:00.123456999-00:00": "2026-11-21T12:00:00.123456Z",
	} {
		at := must.Get(time.Parse(time.RFC3339Nano, text))(t)
		data, err := json.Marshal([]*instant.Stamp{instant.Stamped(&at), nil})
		if instant.Text(at) != want || string(data) != `["`+want+`",null]` || err != nil {
			t.Errorf("%s became %s and %s, %v", text, instant.Text(at), data, err)
		}
	}
}
