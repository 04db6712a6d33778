package deliverystate

import "strings"

// Held returns the condition on a row u of due that a worker holds it at a time. It is written like an index of due.
func Held(now string) string { return "u.worker IS NOT NULL AND u.available_at > " + now }

// SQL returns the condition that a delivery d, with its row u of due if it has one, is in a state of the set at a time.
func (s Set) SQL(now string) string {
	if s == 0 {
		return "true"
	}
	var conditions []string
	for _, r := range rules {
		if s.Has(r.State) {
			conditions = append(conditions, r.sql(now))
		}
	}
	return "(" + strings.Join(conditions, " OR ") + ")"
}

// SQL returns the same condition for one state.
func (s State) SQL(now string) string { return SetOf(s).SQL(now) }

func (r rule) sql(now string) string {
	sql := "d.status = '" + r.stored + "'"
	if r.held != nil {
		sql += " AND " + not(*r.held) + "coalesce(" + Held(now) + ", false)"
	}
	if r.attempted != nil {
		sql += " AND " + not(*r.attempted) + "d.attempts > 0"
	}
	return sql
}

func not(is bool) string {
	if is {
		return ""
	}
	return "NOT "
}
