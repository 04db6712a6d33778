package query

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The bounds of what timestamps can be, for a range without occurrences on one side.
var (
	ever  = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// box are the ranges between which no occurrence of the feed comes in or leaves: since after sinceAfter up to sinceTo,
// until from untilFrom to before untilBefore. The default range moves with the clock, and mostly within a box.
type box struct {
	sinceAfter, sinceTo    time.Time
	untilFrom, untilBefore time.Time
}

// everywhere are all ranges.
var everywhere = box{sinceAfter: ever, sinceTo: never, untilFrom: ever, untilBefore: never}

func (b *box) has(since, until time.Time) bool {
	return since.After(b.sinceAfter) && !since.After(b.sinceTo) && !until.Before(b.untilFrom) && until.Before(b.untilBefore)
}

// edges is where the edges of a range go that Postgres tells.
func (b *box) edges() []any {
	return []any{knownTime{&b.sinceAfter}, knownTime{&b.sinceTo}, knownTime{&b.untilFrom}, knownTime{&b.untilBefore}}
}

// spell is a time during which nothing ends, begins or becomes completed that an answer shows: from, but not before.
type spell struct{ from, before time.Time }

// always is all the time.
var always = spell{from: ever, before: never}

func (s *spell) has(now time.Time) bool { return !now.Before(s.from) && now.Before(s.before) }

// both is the time that is part of two spells.
func (s *spell) both(t spell) spell {
	shared := *s
	if t.from.After(shared.from) {
		shared.from = t.from
	}
	if t.before.Before(shared.before) {
		shared.before = t.before
	}
	return shared
}

func (s *spell) moments() []any { return []any{knownTime{&s.from}, knownTime{&s.before}} }

// knownTime leaves a time as it is where the column is NULL.
type knownTime struct{ at *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (k knownTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.Valid {
		*k.at = v.Time
	}
	return nil
}

// moved is what lies between two ranges, and between two instants: what differs between the lists has an occurrence
// that ends from since[0] to before since[1], or begins after until[0] and not after until[1], or an instance that ends after now[0] and
// not after now[1].
type moved struct{ since, until, now [2]time.Time }

func movedBetween(a, b ItemsQuery) moved {
	return moved{inOrder(a.Since, b.Since), inOrder(a.Until, b.Until), inOrder(a.Now, b.Now)}
}

// far is how far it is.
func (m moved) far() time.Duration {
	return m.since[1].Sub(m.since[0]) + m.until[1].Sub(m.until[0]) + m.now[1].Sub(m.now[0])
}

func inOrder(a, b time.Time) [2]time.Time {
	if b.Before(a) {
		return [2]time.Time{b, a}
	}
	return [2]time.Time{a, b}
}
