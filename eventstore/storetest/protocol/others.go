package protocol

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"
)

// others: what clients in other languages send, and what people write who know the protocol.
func others(t *testing.T, client *esdb.Client) {
	t.Run("the highest revision is no stream", func(t *testing.T) {
		f := begin(t, client)
		stream, none := f.stream("s"), esdb.Revision(math.MaxUint64)
		f.append(stream, none, events(2)...)
		if _, err := f.try(stream, none, events(1)); answer(err) != wrong {
			t.Errorf("there is a stream: %s", answer(err))
		}
		if got := f.numbers(stream); !slices.Equal(got, []int{0, 1}) {
			t.Errorf("events %v", got)
		}
	})
	t.Run("deleted events stay away whatever the metadata says", func(t *testing.T) {
		f := begin(t, client)
		for i, metadata := range []string{`{"$tb":1}`, `{"$tb":0}`, `{}`, `{"$maxCount":9}`} {
			stream := f.stream(strconv.Itoa(i))
			f.append(stream, esdb.NoStream{}, events(3)...)
			if err := softDelete(f, stream); err != nil {
				t.Fatal(err)
			}
			f.append("$$"+stream, esdb.Any{}, event("$metadata", metadata))
			if got := f.numbers(stream); len(got) > 0 && got[0] >= 0 {
				t.Errorf("after %s it reads %v", metadata, got)
			}
			f.append(stream, esdb.Any{}, events(1)...)
			if got := f.numbers(stream); !slices.Equal(got, []int{3}) {
				t.Errorf("after %s and an event it reads %v", metadata, got)
			}
		}
	})
	t.Run("metadata", func(t *testing.T) { metadataAsWritten(t, client) })
	endings(t, client)
}

// endings: which streams can be deleted; and of an id, which place counts.
func endings(t *testing.T, client *esdb.Client) {
	t.Run("a stream that never was can't be deleted", func(t *testing.T) {
		f := begin(t, client)
		for _, expected := range []esdb.ExpectedRevision{esdb.Any{}, esdb.NoStream{}, esdb.StreamExists{}, esdb.Revision(0)} {
			_, err := client.DeleteStream(f.ctx, f.stream("s"), esdb.DeleteStreamOptions{ExpectedRevision: expected})
			if answer(err) == fine {
				t.Errorf("expecting %T it was deleted", expected)
			}
		}
		f.append(f.stream("s"), esdb.NoStream{}, events(1)...)
	})
	t.Run("one with metadata alone is deleted where it exists", func(t *testing.T) {
		f := begin(t, client)
		if err := describeOnly(f, f.stream("s")); err != nil {
			t.Fatal(err)
		}
		if _, err := client.DeleteStream(f.ctx, f.stream("s"), esdb.DeleteStreamOptions{ExpectedRevision: esdb.StreamExists{}}); err != nil {
			t.Error(err)
		}
		if err := describeOnly(f, f.stream("t")); err != nil {
			t.Fatal(err)
		}
		if _, err := client.TombstoneStream(f.ctx, f.stream("t"), esdb.TombstoneStreamOptions{ExpectedRevision: esdb.StreamExists{}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("of an id, the first place in a stream counts", func(t *testing.T) {
		f := begin(t, client)
		a := event("tested", "{}")
		for _, stream := range []string{f.stream("s"), f.stream("t")} { // one id in two streams
			f.append(stream, esdb.Any{}, a, a)
		}
		for _, stream := range []string{f.stream("s"), f.stream("t")} {
			for _, list := range [][]esdb.EventData{{a, a}, {a}} {
				if _, err := f.try(stream, esdb.Any{}, list); answer(err) != fine {
					t.Errorf("%d again: %s", len(list), answer(err))
				}
			}
			if got := f.numbers(stream); !slices.Equal(got, []int{0, 1}) {
				t.Errorf("events %v", got)
			}
		}
	})
}

// metadataAsWritten: what of a stream's metadata is heeded.
func metadataAsWritten(t *testing.T, client *esdb.Client) {
	json, binary := esdb.ContentTypeJson, esdb.ContentTypeBinary
	for name, c := range map[string]struct {
		data, eventType string
		content         esdb.ContentType
		hidden          bool
	}{
		"as it should be":       {`{"$maxCount":1}`, "$metadata", json, true},
		"of another type":       {`{"$maxCount":1}`, "mine", json, true},
		"not flagged as JSON":   {`{"$maxCount":1}`, "$metadata", binary, false},
		"in other letters":      {`{"$MaxCount":1}`, "$metadata", json, false},
		"with one wrong field":  {`{"$maxCount":1,"$tb":"x"}`, "$metadata", json, false},
		"with a wrong age":      {`{"$maxCount":1,"$maxAge":"1"}`, "$metadata", json, false},
		"with a field of mine":  {`{"$maxCount":1,"mine":"x"}`, "$metadata", json, true},
		"with the other letter": {`{"$maxCount":1,"$TB":3}`, "$metadata", json, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, client)
			stream := f.stream("s")
			f.append(stream, esdb.NoStream{}, events(3)...)
			f.append("$$"+stream, esdb.Any{}, esdb.EventData{
				EventID: uuid.New(), EventType: c.eventType, ContentType: c.content, Data: []byte(c.data),
			})
			if got := f.numbers(stream); (len(got) == 1) != c.hidden {
				t.Errorf("it reads %v", got)
			}
		})
	}
}
