package query

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Answers counts the attempts in a slot of time that had a similar duration.
type Answers struct {
	Slot      time.Time // start of the slot
	Step      int       // of the durations: 0 is below 1 ms, n is from √2^(n-1) to √2^n ms
	Succeeded int
	Failed    int
}

// AnswerFilter selects attempts. Zero values match all.
type AnswerFilter struct {
	Destination uuid.UUID
	Types       []string // of the event, see DeliveryFilter
	Reason      string   // why it failed
}

// Answers lists how attempts of an organization were answered from a time on, until another one, in slots of 5 minutes,
// an hour or several hours, oldest first. The first slot begins with from.
func (q *Queries) Answers(ctx context.Context, organization uuid.UUID, of AnswerFilter, slot time.Duration,
	from, until time.Time) ([]Answers, error) {
	scope, minutes := of.Destination, 60
	if scope == uuid.Nil {
		scope = organization
	}
	if slot < time.Hour {
		minutes = 5
	}
	args := arguments{scope, minutes, from, organization, slot, until}
	among := DeliveryFilter{Types: of.Types}.typeIs("type", &args)
	if of.Reason != "" {
		among += " AND reason = " + args.add(of.Reason)
	}
	return many(ctx, q.Pool, "answers", pgx.RowToStructByPos[Answers],
		"SELECT date_bin($5, slot, $3) AS begins, step, "+countedAnswers+` FROM health.answers
		WHERE scope = $1 AND minutes = $2 AND slot >= $3 AND slot < $6
			AND ($1 = $4 OR EXISTS (SELECT FROM destinations.destinations d WHERE d.id = $1 AND d.organization = $4))`+among+
			" GROUP BY begins, step ORDER BY begins, step", args...)
}

// countedAnswers are the columns Succeeded and Failed of Answers.
const countedAnswers = `coalesce(sum(attempts) FILTER (WHERE reason = ''), 0)::bigint,
	coalesce(sum(attempts) FILTER (WHERE reason <> ''), 0)::bigint`

// Intervals has the lengths of slots that metrics are given in.
var Intervals = map[string]time.Duration{"5m": 5 * time.Minute, "1h": time.Hour, "1d": 24 * time.Hour}

// IntervalNames returns the names of the Intervals, the shortest first.
func IntervalNames() []string {
	return slices.SortedFunc(maps.Keys(Intervals), func(a, b string) int {
		return cmp.Compare(Intervals[a], Intervals[b])
	})
}

// Metrics are the figures of the attempts of some time.
type Metrics struct {
	Attempts      int
	Succeeded     int
	Failed        int
	P50, P95, P99 time.Duration // of their durations; 0 without attempts
}

// Count counts attempts by whether they succeeded.
func Count(answers []Answers) (succeeded, failed int) {
	for _, a := range answers {
		succeeded, failed = succeeded+a.Succeeded, failed+a.Failed
	}
	return succeeded, failed
}

// MetricsOf returns the figures of some attempts.
func MetricsOf(answers []Answers) (m Metrics) {
	m.Succeeded, m.Failed = Count(answers)
	m.Attempts = m.Succeeded + m.Failed
	m.P50, m.P95, m.P99 = Latency(0.5, answers), Latency(0.95, answers), Latency(0.99, answers)
	return m
}

// InSlots divides attempts among slots of a length, the first of which begins at a time.
func InSlots(answers []Answers, from time.Time, slot time.Duration, slots int) [][]Answers {
	divided := make([][]Answers, slots)
	for _, a := range answers {
		if i := int(a.Slot.Sub(from) / slot); i >= 0 && i < slots {
			divided[i] = append(divided[i], a)
		}
	}
	return divided
}

// AnswersByHour lists how some destinations of an organization have answered since a time, without durations.
func (q *Queries) AnswersByHour(ctx context.Context, organization uuid.UUID, destinations []uuid.UUID,
	since time.Time) (map[uuid.UUID][]Answers, error) {
	type answers struct {
		Destination uuid.UUID
		Answers
	}
	rows, err := many(ctx, q.Pool, "answers by hour", pgx.RowToStructByPos[answers],
		"SELECT a.scope, a.slot, 0, "+countedAnswers+`
		FROM health.answers a JOIN destinations.destinations d ON d.id = a.scope AND d.organization = $2
		WHERE a.scope = ANY($1) AND a.minutes = 60 AND a.slot >= $3 GROUP BY 1, 2 ORDER BY 1, 2`, destinations, organization,
		since)
	all := map[uuid.UUID][]Answers{}
	for _, r := range rows {
		all[r.Destination] = append(all[r.Destination], r.Answers)
	}
	return all, err
}

// Latency returns the quantile of the durations of some attempts, 0.5 being the median. It is exact to a step and
// interpolates linearly within it. It returns 0 if there are no attempts.
func Latency(part float64, of []Answers) time.Duration {
	const steps = 64
	var count [steps]int
	total := 0
	for _, a := range of {
		n := a.Succeeded + a.Failed
		count[min(max(a.Step, 0), steps-1)] += n
		total += n
	}
	rank := part * float64(total)
	below := 0.0
	for step, n := range &count {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		from, to := 0.0, 1.0
		if step > 0 {
			from, to = math.Pow(2, float64(step-1)/2), math.Pow(2, float64(step)/2)
		}
		return time.Duration((from + (to-from)*(rank-below)/float64(n)) * float64(time.Millisecond))
	}
	return 0
}
