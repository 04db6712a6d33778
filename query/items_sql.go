package query

// The statements of item lists. Parameters: $1 feed, $2 organization, $3 since, $4 until, $5 limit, $6 offset, and with
// a status filter $7 status and $8 now.
//
// An item's first occurrence in the range is the one in it whose previous one is before the range. So the list in order
// of occurrence is a walk along an index until the page is full, and the total is counted without sorting.
const (
	// planOnce holds for the rest of the transaction, which is the round trip. The indexes to walk are the same
	// whatever the parameters: planning for each of them again would take three times as long as reading a page.
	planOnce = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true)`

	selectCurrent = `SELECT (SELECT v.version FROM items.feeds v WHERE v.feed_id = $1), i.current, i.source, i.occurrences `
	selectLegacy  = `SELECT (SELECT v.version FROM items.feeds v WHERE v.feed_id = $1), l.body, i.source, i.occurrences `

	fromOccurrences = `FROM items.occurrences o JOIN items.items i ON i.id = o.item_id `
	fromItems       = `FROM items.items i `
	joinLegacy      = `JOIN items.legacy l ON l.item_id = i.id `

	firstInRange = `WHERE o.feed_id = $1 AND o.starts_at >= $3 AND o.starts_at <= $4 AND o.previous < $3 `
	anyInRange   = `WHERE i.feed_id = $1 AND EXISTS (SELECT FROM items.occurrences o
		WHERE o.item_id = i.id AND o.starts_at >= $3 AND o.starts_at <= $4) `

	mayRead = `AND EXISTS (SELECT FROM feeds.feeds f WHERE f.id = $1 AND f.feed_type = 'event' AND (f.organization = $2
		OR EXISTS (SELECT FROM feeds.shares s WHERE s.feed_id = f.id AND s.organization = $2))) `

	// An instance that was to take place and has ended is completed.
	someInstance = `EXISTS (SELECT FROM items.occurrences x WHERE x.item_id = i.id AND x.starts_at >= $3 AND x.starts_at <= $4
		AND CASE WHEN x.instance_status IN ('scheduled', 'rescheduled') AND x.instance_ends <= $8
			THEN 'completed' ELSE x.instance_status END = $7) `

	inOrderOfOccurrence = `ORDER BY o.starts_at, o.item_id LIMIT $5 OFFSET $6`
	inOrderOfAddition   = `ORDER BY i.added_at DESC, i.id LIMIT $5 OFFSET $6`
)

// itemsSQL puts the statement of a list together. Its text depends on nothing but the kind of list.
func itemsSQL(in ItemsQuery) string {
	sql := selectCurrent
	if in.Legacy {
		sql = selectLegacy
	}
	from, where, order := fromOccurrences, firstInRange, inOrderOfOccurrence
	if in.OrderBy == OrderByCreated {
		from, where, order = fromItems, anyInRange, inOrderOfAddition
	}
	sql += from
	if in.Legacy {
		sql += joinLegacy
	}
	sql += where
	if in.Status != "" {
		sql += "AND " + someInstance
	}
	return sql + mayRead + order
}

const (
	// countAll takes $1 feed, $2 since, $3 until. It also tells the instants between which since and until may move
	// without changing the total, and the version of the feed that it is of.
	countAll = `SELECT coalesce((SELECT version FROM items.feeds WHERE feed_id = $1), 0),
		(SELECT count(*) FROM items.occurrences o WHERE o.feed_id = $1 AND o.starts_at >= $2 AND o.starts_at <= $3 AND o.previous < $2),
		(SELECT max(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at < $2),
		(SELECT min(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at >= $2),
		(SELECT max(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at <= $3),
		(SELECT min(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at > $3)`

	// countStatus takes $1 feed, $2 since, $3 until, $4 status, $5 now. Its answer is of one instant only: instances
	// become completed as time passes.
	countStatus = `SELECT count(DISTINCT x.item_id) FROM items.occurrences x
		WHERE x.feed_id = $1 AND x.starts_at >= $2 AND x.starts_at <= $3
			AND CASE WHEN x.instance_status IN ('scheduled', 'rescheduled') AND x.instance_ends <= $5
				THEN 'completed' ELSE x.instance_status END = $4`
)
