package httpapi

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/eventstore/instant"
)

// mark is a place in a list, the newest first, that is read in stretches: after the thing with a time and an id.
// Several things have one time, so that a time alone would leave some out or show them twice. The zero mark is the
// beginning.
type mark struct {
	at time.Time
	id uuid.UUID
}

// String returns the mark as the parameter until takes it.
func (m mark) String() string { return instant.Text(m.at) + "~" + m.id.String() }

// Stretch is a part of a list that is read by marks. It has neither a total nor an offset: new entries move nothing.
type Stretch[T any] struct {
	Items      []T               `json:"items"`
	Pagination stretchPagination `json:"pagination"`
}

type stretchPagination struct {
	Limit   int     `json:"limit"`
	HasMore bool    `json:"hasMore"`
	Until   *string `json:"until"` // for the next request; null at the end
}

// stretchOf makes a stretch of the items that were found, one more than the limit if there are more.
func stretchOf[T any](found []T, limit int, markOf func(T) mark) Stretch[T] {
	if len(found) <= limit {
		return Stretch[T]{Items: found, Pagination: stretchPagination{Limit: limit}}
	}
	next := markOf(found[limit-1]).String()
	return Stretch[T]{Items: found[:limit], Pagination: stretchPagination{Limit: limit, HasMore: true, Until: &next}}
}

func pageLimit(q *wire.Query) int { return q.Int("limit", usualPage, 1, mostPage) }

// untilOf reads the parameter until as an instant. In a filter, the zero time means "any"; as a parameter it is before
// everything.
func untilOf(q *wire.Query) time.Time {
	until := q.Time("until")
	if q.Has("until") && until.IsZero() {
		until = until.Add(1)
	}
	return until
}

// pageEnd reads the parameter until of a list that is read in stretches: an instant, or the mark that a stretch gave.
func pageEnd(q *wire.Query) (until time.Time, before mark) {
	at, id, marked := strings.Cut(q.Text("until"), "~")
	if !marked {
		return untilOf(q), before
	}
	var ok bool
	if before.id, ok = wire.ParseUUID(id); ok {
		var err error
		before.at, err = wire.ParseTime(at)
		ok = err == nil && !before.at.IsZero()
	}
	if !ok {
		q.Fail("until", "must be an ISO 8601 time with Z or an offset, or pagination.until of the page before, unchanged")
	}
	return before.at, before
}

// checkWindow refuses a window that ends before it begins.
func checkWindow(q *wire.Query, since, until time.Time) {
	if q.Has("since") && q.Has("until") && since.After(until) {
		q.Fail("since", "must not be after until")
	}
}
