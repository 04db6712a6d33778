package copying

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// Difference is the first stream in which source and target differ, and the event. Revision is NoStream if the stream
// differs as a whole.
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

// compare walks both logs side by side up to a position of the source: all events are alike and in the same order. Each
// side's events of each stream are counted and hashed separately, to be compared too. It returns the names of the
// streams that have metadata.
func (c *copier) compare(ctx context.Context, end eventstore.Position) (described []string, err error) {
	next, stop := iter.Pull2(c.target.All(ctx, eventstore.Start))
	defer stop()
	c.tallies = newTallies()
	clear(c.leftOut) // they are counted again, from the beginning
	known := map[string]bool{}
	for read, err := range c.source.All(ctx, eventstore.Start) {
		if err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
		entry := &read
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
		c.tallies.add(ofSource, entry, eventstore.CarriedMetadata(&entry.Recorded))
		if c.result.Compared++; c.result.Compared%reportEvery == 0 {
			c.report(Progress{
				Phase:  PhaseCompare,
				Done:   entry.Position.Commit,
				Total:  end.Commit,
				Events: c.result.Compared,
			})
		}
	}
	if extra, found, err := c.further(ctx, next); err != nil || found {
		if err == nil {
			err = &Difference{Stream: extra.Stream, Revision: extra.Revision, What: "only the target has it"}
		}
		return nil, err
	}
	c.report(Progress{
		Phase:  PhaseCompare,
		Done:   end.Commit,
		Total:  end.Commit,
		Events: c.result.Compared,
	})
	return described, nil
}

// match takes events from the target until one is the counterpart of the source's, past those that the source has
// scavenged meanwhile.
func (c *copier) match(ctx context.Context, want *esdb.Entry, next func() (esdb.Entry, error, bool)) error {
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
func (c *copier) following(next func() (esdb.Entry, error, bool)) (got esdb.Entry, ok bool, err error) {
	for {
		got, err, ok = next()
		switch {
		case !ok:
			return got, false, nil
		case err != nil:
			return got, false, fmt.Errorf("target: %w", err)
		case system(&got):
			continue
		}
		c.tallies.pass(ofTarget, &got)
		if got.Type != eventstore.Filler {
			return got, true, nil
		}
	}
}

// further looks for an event that the target has beyond the source's end.
func (c *copier) further(
	ctx context.Context, next func() (esdb.Entry, error, bool),
) (extra esdb.Entry, found bool, err error) {
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

// difference names the part in which an event and its copy differ, or "".
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
	case !bytes.Equal(eventstore.CarriedMetadata(&want.Recorded), got.Metadata):
		return "its metadata"
	case want.JSON != got.JSON:
		return "the content type of its data"
	}
	return ""
}
