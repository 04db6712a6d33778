package copying

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
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

// withOriginalTime is an event's metadata with the time when it was first recorded, where metadata is a JSON object or
// nothing, and does not say so already.
func withOriginalTime(e *esdb.Entry) []byte {
	property := `"` + esdb.OriginalCreated + `":"` + e.Created.Format(time.RFC3339Nano) + `"`
	object := bytes.TrimSpace(e.Metadata)
	switch {
	case len(object) == 0:
		return []byte("{" + property + "}")
	case object[0] != '{' || bytes.Contains(object, []byte(`"`+esdb.OriginalCreated+`"`)) || !json.Valid(object):
		return e.Metadata
	}
	inside := bytes.TrimSpace(object[1 : len(object)-1])
	if len(inside) > 0 {
		property = "," + property
	}
	return append(append(bytes.Clone(object[:len(object)-1]), property...), '}')
}

// compare walks both logs side by side up to a position of the source: all events are alike and in the same order. What
// each side has of each stream is counted and hashed on its own, and then compared too. It returns the names of the
// streams that have metadata.
func (c *copier) compare(ctx context.Context, end eventstore.Position) (described []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, stop := iter.Pull2(ahead(ctx, c.target.All(ctx, eventstore.Start)))
	defer stop()
	c.tallies = newTallies()
	known := map[string]bool{}
	for entry, err := range ahead(ctx, c.source.All(ctx, eventstore.Start)) {
		if err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
		if end.Before(entry.Position) {
			break // appended since it was copied
		}
		if name, ok := describes(&entry); ok && !known[name] {
			known[name] = true
			described = append(described, name)
		}
		if system(&entry) {
			continue
		}
		if err := c.match(ctx, &entry, next); err != nil {
			return nil, err
		}
		c.tallies.add(ofSource, &entry, withOriginalTime(&entry))
		if c.result.Compared++; c.result.Compared%reportEvery == 0 {
			c.report(Progress{Phase: PhaseCompare, Done: entry.Position.Commit, Total: end.Commit})
		}
	}
	if extra, found, err := c.further(ctx, next); err != nil || found {
		if err == nil {
			err = &Difference{Stream: extra.Stream, Revision: extra.Revision, What: "only the target has it"}
		}
		return nil, err
	}
	streams, digest, err := c.tallies.compare()
	if err != nil {
		return nil, err
	}
	c.result.Streams, c.result.Digest = uint64(len(streams)), digest
	if c.streams != nil {
		c.streams(streams)
	}
	c.report(Progress{Phase: PhaseCompare, Done: end.Commit, Total: end.Commit})
	return described, nil
}

// describes names the stream whose metadata an entry is, if it is a user's.
func describes(e *esdb.Entry) (string, bool) {
	name, ok := strings.CutPrefix(e.Stream, "$$")
	return name, ok && e.Type == metadataType && !strings.HasPrefix(name, "$")
}

// match takes events from the target until one is the counterpart of the source's, past those that the source has
// scavenged meanwhile.
func (c *copier) match(ctx context.Context, want *esdb.Entry, next func() (esdb.Entry, error, bool)) error {
	for {
		got, err, ok := next()
		switch {
		case !ok:
			return &Difference{Stream: want.Stream, Revision: want.Revision, What: "the target does not have it"}
		case err != nil:
			return fmt.Errorf("target: %w", err)
		case system(&got) || got.Type == fillerType:
			continue
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

// further looks for an event that the target has beyond the source's end.
func (c *copier) further(ctx context.Context, next func() (esdb.Entry, error, bool)) (extra esdb.Entry, found bool, err error) {
	for {
		got, err, ok := next()
		switch {
		case !ok:
			return got, false, nil
		case err != nil:
			return got, false, fmt.Errorf("target: %w", err)
		case system(&got) || got.Type == fillerType:
			continue
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
	case !bytes.Equal(withOriginalTime(want), got.Metadata):
		return "its metadata"
	case want.JSON != got.JSON:
		return "what its data is declared as"
	}
	return ""
}
