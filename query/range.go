package query

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The limits of timestamps, for a range without occurrences on one side.
var (
	minTime = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	maxTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// box is a set of ranges between which no occurrence of the feed enters or leaves: since after sinceAfter up to
// sinceTo, until from untilFrom to before untilBefore. The default range moves with the clock, mostly within a box.
type box struct {
	sinceAfter, sinceTo    time.Time
	untilFrom, untilBefore time.Time
}

// everywhere contains all ranges.
var everywhere = box{
	sinceAfter:  minTime,
	sinceTo:     maxTime,
	untilFrom:   minTime,
	untilBefore: maxTime,
}

func (b *box) has(since, until time.Time) bool {
	return since.After(b.sinceAfter) && !since.After(b.sinceTo) && !until.Before(b.untilFrom) &&
		until.Before(b.untilBefore)
}

// edges returns the targets for scanning the edges of a range.
func (b *box) edges() []any {
	return []any{knownTime{&b.sinceAfter}, knownTime{&b.sinceTo}, knownTime{&b.untilFrom}, knownTime{&b.untilBefore}}
}

// spell is a time, from an instant and up to but excluding another, during which no occurrence in an answer begins,
// ends or becomes completed.
type spell struct{ from, before time.Time }

// always is all time.
var always = spell{from: minTime, before: maxTime}

func (s *spell) has(now time.Time) bool { return !now.Before(s.from) && now.Before(s.before) }

// both returns the intersection of two spells.
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

func (s *spell) instants() []any { return []any{knownTime{&s.from}, knownTime{&s.before}} }

// knownTime keeps its time if the column is NULL.
type knownTime struct{ at *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (k knownTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.Valid {
		*k.at = v.Time
	}
	return nil
}

// moved is the difference between two ranges and between two instants: the lists differ by occurrences that end from
// since[0] to before since[1] or begin after until[0] and not after until[1], and by instances that end after now[0]
// and not after now[1].
type moved struct{ since, until, now [2]time.Time }

func movedBetween(a, b ItemsQuery) moved {
	return moved{inOrder(a.Since, b.Since), inOrder(a.Until, b.Until), inOrder(a.Now, b.Now)}
}

// far returns the length of the difference.
func (m moved) far() time.Duration {
	return m.since[1].Sub(m.since[0]) + m.until[1].Sub(m.until[0]) + m.now[1].Sub(m.now[0])
}

func inOrder(a, b time.Time) [2]time.Time {
	if b.Before(a) {
		return [2]time.Time{b, a}
	}
	return [2]time.Time{a, b}
}
