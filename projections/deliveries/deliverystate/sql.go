package deliverystate

import "strings"

// Held returns the condition on a row u of due that a worker holds it at a time. It is written like an index of due.
func Held(now string) string { return "u.worker IS NOT NULL AND u.available_at > " + now }

// Free is the condition on a row u of due that its delivery waits for an attempt of its schedule. It is written like an
// index of due.
const Free = "u.worker IS NULL AND u.replay IS NULL"

// Retryable returns the condition on a row u of due that a retry makes its delivery due earlier, at a time.
func Retryable(now string) string {
	return Free + " AND u.available_at > " + now + " AND u.due_at > " + now
}

// Conditions on a row d of deliveries.
var (
	// Replayable is true if it failed permanently, and no replay is pending.
	Replayable = Failed.SQL("") + " AND d.replay IS NULL"
	// Retried is true if it has not ended, and an attempt failed. The next one may be in flight.
	Retried = "d.unsuccessful = '" + string(Retrying) + "'"
)

// SQL returns the condition that a row d of deliveries is in a state of the set. held is the condition that a worker
// holds the delivery; it is not used by a set without states of pending deliveries, or with all of them. The column
// unsuccessful has an index.
func (s Set) SQL(held string) string {
	if s == 0 {
		return "true"
	}
	waits, retried, sent := s.Has(Waiting), s.Has(Retrying), s.Has(Delivering)
	var conditions, unsuccessful []string
	isSent := "d.status = 'pending' AND " + held
	switch {
	case waits && retried:
		conditions = append(conditions, "d.status = 'pending'")
	case waits:
		conditions = append(conditions, "d.status = 'pending' AND d.unsuccessful IS NULL")
	case retried:
		unsuccessful = append(unsuccessful, string(Retrying))
		if !sent {
			isSent = Retried + " AND " + held
		}
	}
	for _, state := range s.Ended() {
		if state == Succeeded {
			conditions = append(conditions, "d.status = 'succeeded'")
			continue
		}
		unsuccessful = append(unsuccessful, string(state))
	}
	if len(unsuccessful) > 0 {
		conditions = append(conditions, "d.unsuccessful IN ('"+strings.Join(unsuccessful, "', '")+"')")
	}
	if sent && (!waits || !retried) {
		conditions = append(conditions, isSent)
	}
	sql := "(" + strings.Join(conditions, " OR ") + ")"
	if !sent && (waits || retried) {
		return "(" + sql + " AND NOT (" + isSent + "))"
	}
	return sql
}

// SQL returns the same condition for one state.
func (s State) SQL(held string) string { return SetOf(s).SQL(held) }
