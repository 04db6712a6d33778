package collection

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/eventstore"
)

const (
	kindFeed      = "feed"
	kindHappening = "happening"
)

type rowKey struct {
	kind string
	id   uuid.UUID
}

// restore puts back a row that changed once gave.
func (x *index) restore(row eventstore.SavedRow) error {
	id, err := uuid.Parse(row.ID)
	if err != nil {
		return fmt.Errorf("saved %s %s: %w", row.Kind, row.ID, err)
	}
	switch row.Kind {
	case kindFeed:
		f := &filled{}
		if err = json.Unmarshal(row.Data, f); err == nil {
			x.restoreFeed(id, f)
		}
	case kindHappening:
		h := &carried{}
		if err = json.Unmarshal(row.Data, h); err == nil {
			x.restoreHappening(id, h)
		}
	default:
		err = fmt.Errorf("unknown kind")
	}
	if err != nil {
		return fmt.Errorf("saved %s %s: %w", row.Kind, row.ID, err)
	}
	return nil
}

func (x *index) restoreFeed(id uuid.UUID, f *filled) {
	if f.Sources == nil {
		f.Sources = map[uuid.UUID]*attached{}
	}
	x.feeds[id] = f
	for sourceID := range f.Sources {
		put(x.filledBy, sourceID, id)
	}
}

func (x *index) restoreHappening(id uuid.UUID, h *carried) {
	if h.Feeds == nil {
		h.Feeds = map[uuid.UUID]bool{}
	}
	x.happenings[id] = h
	for sourceID := range h.Sources {
		put(x.carriedBy, sourceID, id)
	}
}

// changed gives the rows that changed since the last call.
func (x *index) changed() ([]eventstore.SavedRow, error) {
	rows := make([]eventstore.SavedRow, 0, len(x.dirty))
	for key := range x.dirty {
		row := eventstore.SavedRow{Kind: key.kind, ID: key.id.String()}
		var err error
		if f := x.feeds[key.id]; key.kind == kindFeed && f != nil {
			row.Data, err = json.Marshal(f)
		} else if h := x.happenings[key.id]; key.kind == kindHappening && h != nil {
			row.Data, err = json.Marshal(h)
		}
		if err != nil {
			return nil, fmt.Errorf("save %s %s: %w", key.kind, key.id, err)
		}
		rows = append(rows, row)
	}
	clear(x.dirty)
	return rows, nil
}
