package copying

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// Difference is the first stream in which source and target differ, and the event. Revision is NoStream where the
// stream differs as a whole.
type Difference struct {
	Stream   string
	Revision eventstore.Revision
	What     string
}

// Error names the stream and the event.
func (d *Difference) Error() string {
	if d.Revision < 0 {
		return fmt.Sprintf("source and target differ in stream %s: %s", d.Stream, d.What)
	}
	return fmt.Sprintf("source and target differ at event %d of stream %s: %s", d.Revision, d.Stream, d.What)
}

// sizeLimit is what servers take at most, where they count metadata and type too. A type counts twice its length.
const sizeLimit = 1 << 20

// CarriedMetadata returns the metadata that a copy of an event has: with the time when it was first recorded, if the
// metadata is a JSON object or empty, lacks that time, and has room for it. A server would refuse an event that became
// too large by it.
func CarriedMetadata(e *esdb.Entry) []byte {
	property := `"` + eventstore.OriginalCreated + `":"` + e.Created.Format(time.RFC3339Nano) + `"`
	object := bytes.TrimSpace(e.Metadata)
	switch {
	case len(object) == 0 && len(e.Data)+len("{}")+len(property)+2*len(e.Type) > sizeLimit:
		return e.Metadata
	case len(object) == 0:
		return []byte("{" + property + "}")
	case object[0] != '{' || bytes.Contains(object, []byte(`"`+eventstore.OriginalCreated+`"`)) || !json.Valid(object):
		return e.Metadata
	}
	if len(e.Data)+len(object)+len(",")+len(property)+2*len(e.Type) > sizeLimit {
		return e.Metadata
	}
	inside := bytes.TrimSpace(object[1 : len(object)-1])
	if len(inside) > 0 {
		property = "," + property
	}
	return append(append(bytes.Clone(object[:len(object)-1]), property...), '}')
}

// compare walks both logs side by side up to a position of the source: all events are alike and in the same order. What
// each side has of each stream is counted and hashed on its own, to be compared too. It returns the names of the
// streams that have metadata.
func (c *copier) compare(ctx context.Context, end eventstore.Position) (described []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, stop := iter.Pull(ahead(ctx, c.log(ctx, c.target, eventstore.Start)))
	defer stop()
	c.tallies = newTallies()
	clear(c.leftOut) // they are counted again, from the beginning
	known := map[string]bool{}
	for s := range ahead(ctx, c.log(ctx, c.source, eventstore.Start)) {
		if s.err != nil {
			return nil, fmt.Errorf("source: %w", s.err)
		}
		entry := &s.entry
		if end.Before(entry.Position) {
			break // appended since it was copied
		}
		if name, ok := describes(entry); ok && !known[name] {
			known[name] = true
			described = append(described, name)
		}
		if !system(entry) {
			c.tallies.pass(ofSource, entry)
		}
		if c.skip(entry) {
			continue
		}
		if err := c.match(ctx, entry, next); err != nil {
			return nil, err
		}
		c.tallies.add(ofSource, entry, CarriedMetadata(entry))
		if c.result.Compared++; c.result.Compared%reportEvery == 0 {
			c.report(Progress{Phase: PhaseCompare, Done: entry.Position.Commit, Total: end.Commit, Events: c.result.Compared})
		}
	}
	if extra, found, err := c.further(ctx, next); err != nil || found {
		if err == nil {
			err = &Difference{Stream: extra.Stream, Revision: extra.Revision, What: "only the target has it"}
		}
		return nil, err
	}
	c.report(Progress{Phase: PhaseCompare, Done: end.Commit, Total: end.Commit, Events: c.result.Compared})
	return described, nil
}

// match takes events from the target until one is the counterpart of the source's, past those that the source has
// scavenged meanwhile.
func (c *copier) match(ctx context.Context, want *esdb.Entry, next func() (step, bool)) error {
	for {
		got, ok, err := c.following(next)
		switch {
		case err != nil:
			return err
		case !ok:
			return &Difference{Stream: want.Stream, Revision: want.Revision, What: "the target does not have it"}
		case got.Stream == want.Stream && got.Revision == want.Revision:
			if what := difference(want, &got); what != "" {
				return &Difference{Stream: want.Stream, Revision: want.Revision, What: what}
			}
			c.tallies.add(ofTarget, &got, got.Metadata)
			return nil
		}
		if _, known, err := c.find(ctx, &got); err != nil || known != gone {
			if err == nil {
				err = &Difference{
					Stream: want.Stream, Revision: want.Revision,
					What: fmt.Sprintf("the target has event %d of stream %s in its place", got.Revision, got.Stream),
				}
			}
			return err
		}
		c.result.Gone++
	}
}

// following is the target's next event that is to be compared.
func (c *copier) following(next func() (step, bool)) (got esdb.Entry, ok bool, err error) {
	for {
		s, ok := next()
		switch {
		case !ok:
			return got, false, nil
		case s.err != nil:
			return got, false, fmt.Errorf("target: %w", s.err)
		case system(&s.entry):
			continue
		}
		c.tallies.pass(ofTarget, &s.entry)
		if s.entry.Type != eventstore.Filler {
			return s.entry, true, nil
		}
	}
}

// further looks for an event that the target has beyond the source's end.
func (c *copier) further(ctx context.Context, next func() (step, bool)) (extra esdb.Entry, found bool, err error) {
	for {
		got, ok, err := c.following(next)
		if err != nil || !ok {
			return got, false, err
		}
		_, known, err := c.find(ctx, &got)
		if err != nil || known != gone {
			return got, err == nil, err
		}
		c.result.Gone++
	}
}

// difference says in what an event and its copy differ, or "".
func difference(want, got *esdb.Entry) string {
	switch {
	case want.Type != got.Type:
		return fmt.Sprintf("type %s became %s", want.Type, got.Type)
	case want.Type == tombstoneType:
		return "" // each server makes its own
	case want.ID != got.ID:
		return fmt.Sprintf("id %s became %s", want.ID, got.ID)
	case !bytes.Equal(want.Data, got.Data):
		return "its data"
	case !bytes.Equal(CarriedMetadata(want), got.Metadata):
		return "its metadata"
	case want.JSON != got.JSON:
		return "what its data is declared as"
	}
	return ""
}
