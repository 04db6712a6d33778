package copying

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// Properties of a stream's metadata: the first readable revision, and, in a copy whose stream was filled, the first one
// that the copy brought.
const (
	truncateBefore = "$tb"
	copiedFrom     = "carillonCopiedFrom"
)

// metadata gives the target's streams the metadata that the source's have now, and with it their deletions.
func (c *copier) metadata(ctx context.Context, described []string) error {
	for _, stream := range described {
		want, ok, err := c.source.Last(ctx, "$$"+stream)
		if errors.Is(err, eventstore.ErrStreamDeleted) || err == nil && !ok {
			continue // the stream was tombstoned, and so is its copy; or nothing is left of its metadata
		}
		if err != nil {
			return fmt.Errorf("source: metadata of %s: %w", stream, err)
		}
		if err := c.describe(ctx, stream, want.ID, want.Data); err != nil {
			return fmt.Errorf("target: metadata of %s: %w", stream, err)
		}
	}
	return nil
}

// hide makes a stream of the target begin at a revision.
func (b *batch) hide(ctx context.Context, stream string, first eventstore.Revision) error {
	data, err := json.Marshal(map[string]eventstore.Revision{truncateBefore: first, copiedFrom: first})
	if err == nil {
		err = b.write(ctx, stream, uuid.New(), data)
	}
	if err != nil {
		return fmt.Errorf("target: metadata of %s: %w", stream, err)
	}
	return nil
}

// describe writes metadata where the target has other, and reads it back.
func (c *copier) describe(ctx context.Context, stream string, id uuid.UUID, data []byte) error {
	for range 2 {
		there, ok, err := c.target.Last(ctx, "$$"+stream)
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return nil
		}
		if err != nil {
			return err
		}
		want := data
		if ok {
			if want, err = keepHidden(there.Data, data); err != nil {
				return err
			}
			if bytes.Equal(there.Data, want) {
				return nil
			}
		}
		if err := c.write(ctx, stream, id, want); err != nil {
			return err
		}
		c.result.Metadata++
	}
	return errors.New("it was written and reads differently")
}

func (c *copier) write(ctx context.Context, stream string, id uuid.UUID, data []byte) error {
	expected := eventstore.NoStream
	last, ok, err := c.target.Last(ctx, "$$"+stream)
	if err != nil {
		return err
	}
	if ok {
		expected = last.Revision
	}
	_, err = c.target.AppendEntries(ctx, "$$"+stream, expected, []esdb.Entry{{
		Recorded: eventstore.Recorded{ID: id, Type: metadataType, Data: data}, JSON: true,
	}})
	return err
}

// keepHidden is the source's metadata with what keeps the fillers of the target's stream hidden, where it has any.
func keepHidden(there, source []byte) ([]byte, error) {
	var filled struct {
		From *uint64 `json:"carillonCopiedFrom"`
	}
	_ = json.Unmarshal(there, &filled) // where it can't be read, it is none of ours
	if filled.From == nil {
		return source, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(source, &fields); err != nil || fields == nil {
		fields = map[string]json.RawMessage{} // not an object: nothing that a server would heed
	}
	var begins uint64
	if raw := fields[truncateBefore]; raw != nil {
		_ = json.Unmarshal(raw, &begins) // anything else than a number is no truncation
	}
	for name, value := range map[string]uint64{truncateBefore: max(begins, *filled.From), copiedFrom: *filled.From} {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields[name] = raw
	}
	return json.Marshal(fields)
}
