package health

import (
	"maps"
	"math"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/projections/column"
)

// LastStep is the step of attempts that took √2^(LastStep-1) ms, some 12 minutes, or longer.
const LastStep = 40

// slots are how long the slots are that attempts are counted in, in minutes.
var slots = [...]int{5, 60}

// step is that of a duration, see schema.sql.
func step(took time.Duration) int {
	ms := float64(took) / float64(time.Millisecond)
	if ms < 1 {
		return 0
	}
	return min(LastStep, 1+int(2*math.Log2(ms)))
}

// answerKey names a row of answers.
type answerKey struct {
	scope     uuid.UUID
	minutes   int
	slot      int64 // seconds since 1970
	step      int
	eventType string
	reason    delivery.Failure
}

// answers are the attempts that a batch adds to the rows of answers.
type answers map[answerKey]int64

func (a answers) attempted(e delivery.Attempted) {
	for _, minutes := range slots {
		length := time.Duration(minutes) * time.Minute
		for _, scope := range [...]uuid.UUID{e.Destination, e.Organization} {
			a[answerKey{scope, minutes, e.At.Truncate(length).Unix(), step(e.Duration()), e.Type, e.FailureReason}]++
		}
	}
}

// drop forgets what a destination that is deleted in the batch has answered before.
func (a answers) drop(destination uuid.UUID) {
	maps.DeleteFunc(a, func(key answerKey, _ int64) bool { return key.scope == destination })
}

// answerRow is one row of answers with its additions.
type answerRow struct {
	answerKey
	attempts int64
}

func (a answers) rows() []answerRow {
	all := make([]answerRow, 0, len(a))
	for key, count := range a {
		all = append(all, answerRow{key, count})
	}
	return all
}

var addAnswers = column.Add("answers", []column.Column[answerRow]{
	column.New[column.UUIDs]("scope", "uuid", func(r answerRow) uuid.UUID { return r.scope }),
	column.New[[]int]("minutes", "integer", func(r answerRow) int { return r.minutes }),
	column.New[column.Times]("slot", "timestamptz", func(r answerRow) time.Time { return time.Unix(r.slot, 0).UTC() }),
	column.New[[]int]("step", "integer", func(r answerRow) int { return r.step }),
	column.New[[]string]("type", "text", func(r answerRow) string { return r.eventType }),
	column.New[[]string]("reason", "text", func(r answerRow) string { return string(r.reason) }),
}, column.New[[]int64]("attempts", "bigint", func(r answerRow) int64 { return r.attempts }))
