package webhook

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEnvelopeBytes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	full := Envelope{
		ID:         "e1",
		Source:     "/feeds/news/7",
		Type:       "news.item.added",
		Subject:    `a "b"` + "\n<&>",
		Time:       at,
		RecordedAt: at.Add(time.Hour + 999),
		FeedType:   "news",
		FeedID:     "7",
		Data:       []byte(`{"n": 1.0, "dup":1,"dup":2}`),
	}
	for _, test := range []struct {
		name     string
		envelope Envelope
		want     string
	}{
		{"full", full, `{"id":"e1","source":"/feeds/news/7","specversion":"1.0","type":"news.item.added","subject":"a ` +
			`\"b\"\n<&>",` +
			`"time":"2026-11-21T02:04:05.678900Z","sequence":"00001795230245678900",` +
			`"datacontenttype":"application/json","feedtype":"news","feedid":"7",` +
			`"data":{"n": 1.0, "dup":1,"dup":2}}`},
		{"least", Envelope{
			ID:     "e2",
			Source: "s",
			Type:   "t",
			Time:   at.Truncate(time.Second),
		},
			`{"id":"e2","source":"s","specversion":"1.0","type":"t","subject":null,"time":"2026-11-21T02:04:05.000000Z",` +
				`"sequence":"00000000000000000000","datacontenttype":"application/json","data":null}`},
		{"not UTF-8", Envelope{
			ID:     "\xff",
			Source: "s",
			Type:   "t",
			Time:   at,
		},
			`{"id":"` + "\uFFFD" +
				`","source":"s","specversion":"1.0","type":"t","subject":null,"time":"2026-11-21T02:04:05.678900Z",` +
				`"sequence":"00000000000000000000","datacontenttype":"application/json","data":null}`},
	} {
		got, err := test.envelope.AppendJSON([]byte("> "))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff("> "+test.want, string(got)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if !json.Valid(got[2:]) {
			t.Errorf("%s: not JSON", test.name)
		}
	}
}

func TestEnvelopeRefusesBadData(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"{", "1 2", `{"a":1},"id":"forged"`, "\xff", "nul", " "} {
		got, err := Envelope{ID: "e", Data: []byte(data)}.AppendJSON(nil)
		if !errors.Is(err, ErrData) || len(got) != 0 {
			t.Errorf("%q: %q, %v", data, got, err)
		}
	}
}
