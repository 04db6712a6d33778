package delivery

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/eventstore"
)

const (
	kindFeed   = "feed"
	kindTarget = "target"
	kindSub    = "subscription"
	kindWindow = "window"
)

type rowKey struct{ kind, id string }

type savedWindow struct {
	Destination uuid.UUID `json:"destination"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject"`
	Closes      time.Time `json:"closes"`
	Delivery    uuid.UUID `json:"delivery"`
}

// Restore puts back a row that Changed once gave.
func (r *Routes) Restore(row eventstore.SavedRow) error {
	var err error
	switch row.Kind {
	case kindFeed:
		err = restore(row, r.setFeed)
	case kindTarget:
		err = restore(row, r.setTarget)
	case kindSub:
		err = restore(row, r.setSub)
	case kindWindow:
		var w savedWindow
		err = json.Unmarshal(row.Data, &w)
		r.windows[windowKey{w.Destination, w.Type, w.Subject}] = window{closes: w.Closes, delivery: w.Delivery}
	default:
		err = fmt.Errorf("unknown kind")
	}
	if err != nil {
		return fmt.Errorf("saved route %s %s: %w", row.Kind, row.ID, err)
	}
	clear(r.dirty)
	return nil
}

func restore[T any](row eventstore.SavedRow, set func(uuid.UUID, *T)) error {
	id, err := uuid.Parse(row.ID)
	if err != nil {
		return err
	}
	value := new(T)
	if err := json.Unmarshal(row.Data, value); err != nil {
		return err
	}
	set(id, value)
	return nil
}

// Changed gives the rows that changed since the last call. Windows that closed before a time are dropped; it is that of
// the newest event, so that an older one never finds its window missing.
func (r *Routes) Changed(now time.Time) ([]eventstore.SavedRow, error) {
	for key, w := range r.windows {
		if w.closes.Before(now) {
			delete(r.windows, key)
			r.dirty[rowKey{kindWindow, key.String()}] = struct{}{}
		}
	}
	windows := map[string]savedWindow{}
	for key, w := range r.windows {
		windows[key.String()] = savedWindow{key.destination, key.kind, key.subject, w.closes, w.delivery}
	}
	rows := make([]eventstore.SavedRow, 0, len(r.dirty))
	for _, key := range slices.Collect(maps.Keys(r.dirty)) {
		data, err := r.rowData(key, windows)
		if err != nil {
			return nil, fmt.Errorf("save route %s %s: %w", key.kind, key.id, err)
		}
		rows = append(rows, eventstore.SavedRow{Kind: key.kind, ID: key.id, Data: data})
	}
	clear(r.dirty)
	return rows, nil
}

func (r *Routes) rowData(key rowKey, windows map[string]savedWindow) ([]byte, error) {
	if key.kind == kindWindow {
		w, open := windows[key.id]
		if !open {
			return nil, nil
		}
		return json.Marshal(w)
	}
	id, err := uuid.Parse(key.id)
	if err != nil {
		return nil, err
	}
	switch key.kind {
	case kindFeed:
		return marshal(r.feeds[id])
	case kindTarget:
		return marshal(r.targets[id])
	default:
		return marshal(r.subs[id])
	}
}

func marshal[T any](value *T) ([]byte, error) {
	if value == nil {
		return nil, nil
	}
	return json.Marshal(value)
}
