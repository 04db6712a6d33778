package copying

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

func TestStreamsAreComparedByCountAndHash(t *testing.T) {
	t.Parallel()
	entry := func(stream string, revision eventstore.Revision) esdb.Entry {
		return esdb.Entry{JSON: true, Recorded: eventstore.Recorded{
			Stream:   stream,
			Revision: revision,
			ID:       uuid.NewSHA1(uuid.Nil, []byte(stream)),
			Type:     "x",
			Data:     []byte(`{"n":1}`),
			Metadata: []byte(`{}`),
		}}
	}
	for name, c := range map[string]struct {
		change func(*esdb.Entry)
		drop   bool
		extra  string
		want   string // the stream named; empty if all are alike
	}{
		"the same":            {},
		"another id":          {change: func(e *esdb.Entry) { e.ID = uuid.New() }, want: "b"},
		"another type":        {change: func(e *esdb.Entry) { e.Type = "y" }, want: "b"},
		"other data":          {change: func(e *esdb.Entry) { e.Data = []byte(`{"n":2}`) }, want: "b"},
		"other metadata":      {change: func(e *esdb.Entry) { e.Metadata = nil }, want: "b"},
		"another revision":    {change: func(e *esdb.Entry) { e.Revision = 7 }, want: "b"},
		"not declared JSON":   {change: func(e *esdb.Entry) { e.JSON = false }, want: "b"},
		"between two fields":  {change: func(e *esdb.Entry) { e.Type, e.Data = "x{", e.Data[1:] }, want: "b"},
		"an event less":       {drop: true, want: "b"},
		"a stream that isn't": {extra: "aa", want: "aa"},
		"a tombstone":         {change: func(e *esdb.Entry) { e.Type = tombstoneType }, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both := newTallies()
			for _, stream := range []string{"c", "b", "a"} {
				for revision := range eventstore.Revision(3) {
					e := entry(stream, revision)
					both.pass(ofSource, &e)
					both.add(ofSource, &e, e.Metadata)
					changed := stream == "b" && revision == 1
					if changed && c.change != nil {
						c.change(&e)
					}
					if !changed || !c.drop {
						both.pass(ofTarget, &e)
						both.add(ofTarget, &e, e.Metadata)
					}
				}
			}
			if c.extra != "" {
				e := entry(c.extra, 0)
				both.pass(ofTarget, &e)
				both.add(ofTarget, &e, e.Metadata)
			}
			both.end("described", eventstore.NoStream, eventstore.NoStream) // metadata and nothing else
			streams, digest, err := both.compare()
			var found *Difference
			switch {
			case c.want == "" && (err != nil || len(streams) != 3 || digest == "" || streams[0].Name != "a" ||
				streams[0].Events != 3):
				t.Errorf("%+v, %s, %v", streams, digest, err)
			case c.want != "" &&
				(!errors.As(err, &found) || found.Stream != c.want || !strings.Contains(err.Error(), "stream "+c.want) ||
					!strings.Contains(found.What, " events with SHA-256 ")):
				t.Errorf("error = %v", err)
			}
		})
	}
}
