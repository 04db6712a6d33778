package copying

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// Properties of a stream's metadata: the first readable revision, and, in a copy whose stream was filled, the first one
// that the copy brought.
const (
	truncateBefore = "$tb"
	copiedFrom     = "carillonCopiedFrom"
)

// describing is how many streams are worked on at once when metadata is set. Their order among each other means
// nothing.
const describing = 16

// describeAll sets the last revisions and metadata of the source's streams in the target, and with it their deletions.
func (c *copier) describeAll(ctx context.Context, described []string) error {
	changes := make([]change, len(described))
	for i, name := range described {
		changes[i].source, changes[i].target = c.tallies.last(name)
	}
	err := c.describeEach(ctx, described, changes)
	for i, name := range described {
		c.tallies.end(name, changes[i].source, changes[i].target)
		c.result.Filled += changes[i].filled
		if changes[i].metadata {
			c.result.Metadata++
		}
	}
	return err
}

func (c *copier) describeEach(ctx context.Context, described []string, changes []change) error {
	var guard sync.Mutex
	done, total := uint64(0), uint64(len(described))
	report := func(more uint64) {
		guard.Lock()
		defer guard.Unlock()
		done += more
		c.report(Progress{
			Phase:  PhaseDescribe,
			Done:   done,
			Total:  total,
			Events: done,
		})
	}
	report(0)
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(describing)
	for i, name := range described {
		work.Go(func() error {
			if err := c.describe(ctx, name, &changes[i]); err != nil {
				return fmt.Errorf("metadata of %s: %w", name, err)
			}
			report(1)
			return nil
		})
	}
	return work.Wait()
}

// change is the change of a stream that has metadata, and the last revisions afterwards.
type change struct {
	source, target eventstore.Revision
	filled         uint64
	metadata       bool
}

// describe does it for one stream. The change says what the logs show of it, and then what was done.
func (c *copier) describe(ctx context.Context, name string, done *change) (err error) {
	// Of the events in the log, the last one is the stream's last. If it shows none, they may all be gone.
	if done.source < 0 {
		if done.source, err = lastRevision(ctx, c.source, name); err != nil {
			return fmt.Errorf("source: %w", err)
		}
	}
	if done.target < 0 {
		if done.target, err = lastRevision(ctx, c.target, name); err != nil {
			return fmt.Errorf("target: %w", err)
		}
	}
	if done.target < done.source && done.source != ended {
		if err := c.carryOver(ctx, name, done); err != nil {
			return fmt.Errorf("target: %w", err)
		}
	}
	want, ok, err := c.source.Last(ctx, "$$"+name)
	switch {
	case errors.Is(err, eventstore.ErrStreamDeleted), err == nil && !ok:
		return nil // the stream was tombstoned, and so is its copy; or nothing is left of its metadata
	case err != nil:
		return fmt.Errorf("source: %w", err)
	}
	if err := c.set(ctx, name, &want, done); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	return nil
}

// lastRevision is that of a stream's last event, or the number for the end of a tombstoned one.
func lastRevision(ctx context.Context, store *esdb.Store, name string) (eventstore.Revision, error) {
	last, err := store.LastRevision(ctx, name)
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return ended, nil
	}
	return last, err
}

// carryOver makes the next revision of a target's stream that of the source's, of which all later events are gone.
// Subscribers who resume after one of them would else miss what comes next.
func (c *copier) carryOver(ctx context.Context, name string, done *change) error {
	hide := hiding(name, done.source+1)
	if err := c.write(ctx, name, &hide); err != nil {
		return err
	}
	for done.target < done.source {
		list := fillers(name, done.target+1, done.source+1)
		appended, err := c.target.AppendEntries(ctx, name, done.target, list)
		if err != nil {
			return meaning(err)
		}
		done.target = appended.Revision
		done.filled += uint64(len(list))
	}
	return nil
}

// hiding is metadata that makes a stream begin at a revision.
func hiding(stream string, first eventstore.Revision) esdb.Entry {
	return esdb.Entry{JSON: true, Recorded: eventstore.Recorded{
		ID: derived("%s begins at %d", stream, first), Type: metadataType,
		Data: fmt.Appendf(nil, `{"%s":%d,"%s":%[2]d}`, truncateBefore, first, copiedFrom),
	}}
}

// set writes metadata if the target has other, and reads it back.
func (c *copier) set(ctx context.Context, name string, source *esdb.Entry, done *change) error {
	for range 2 {
		there, ok, err := c.target.Last(ctx, "$$"+name)
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return nil
		}
		if err != nil {
			return err
		}
		want := *source
		if ok {
			if err := keepHidden(there.Data, &want); err != nil {
				return err
			}
			if bytes.Equal(there.Data, want.Data) && there.JSON == want.JSON {
				return nil
			}
		}
		if err := c.write(ctx, name, &want); err != nil {
			return err
		}
		done.metadata = true
	}
	return errors.New("it was written and reads differently")
}

func (c *copier) write(ctx context.Context, name string, metadata *esdb.Entry) error {
	last, err := c.target.LastRevision(ctx, "$$"+name)
	if err != nil {
		return err
	}
	_, err = c.target.AppendEntries(ctx, "$$"+name, last, []esdb.Entry{{
		Recorded: eventstore.Recorded{ID: metadata.ID, Type: metadata.Type, Data: metadata.Data}, JSON: metadata.JSON,
	}})
	return err
}

// keepHidden adds settings to the source's metadata that keep the fillers of the target's stream hidden, if it has any.
func keepHidden(there []byte, source *esdb.Entry) error {
	var filled struct {
		From *uint64 `json:"carillonCopiedFrom"`
	}
	_ = json.Unmarshal(there, &filled) // if it can't be read, it is not ours
	if filled.From == nil {
		return nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(source.Data, &fields); err != nil || fields == nil || !source.JSON {
		fields = map[string]json.RawMessage{} // nothing that a server would heed
	}
	var begins uint64
	if raw := fields[truncateBefore]; raw != nil {
		_ = json.Unmarshal(raw, &begins) // anything else than a number is no truncation
	}
	for name, value := range map[string]uint64{truncateBefore: max(begins, *filled.From), copiedFrom: *filled.From} {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		fields[name] = raw
	}
	data, err := json.Marshal(fields)
	source.Data, source.JSON = data, true
	return err
}
