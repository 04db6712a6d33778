package query

import "fmt"

// The statements of item lists.
//
// An occurrence is in a range that it overlaps. An item's first occurrence in the range is the one before which all
// others in the range had ended. So the list in order of occurrence is a walk along an index until the page is full,
// and the total is counted without sorting. The walk begins a day before the range: only the few occurrences that
// take longer can reach into the range from before that, and they have an index of their own. All other lists, and
// pages far from the beginning, are read by an outline. Results are cached: while they hold, Postgres is asked only
// for the version of the feed's items.
const (
	// planGeneric holds for the rest of the transaction, which is one round trip. The same indexes are walked whatever
	// the parameters: planning again for each of them would take three times as long as reading a page.
	planGeneric = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true)`

	// planCustom is the opposite, for statements that read a lot: a generic plan assumes short ranges.
	planCustom = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`

	selectItems = `SELECT (SELECT v.version FROM items.feeds v WHERE v.feed_id = $1), i.current, i.source, i.occurrences,
		i.relevance `

	mayRead = `EXISTS (SELECT FROM feeds.feeds f WHERE f.id = $1 AND f.feed_type = 'event' AND (f.organization = $2
		OR EXISTS (SELECT FROM feeds.shares s WHERE s.feed_id = f.id AND s.organization = $2))) `

	// firstPages reads a page of the list in order of occurrence. Parameters: $1 feed, $2 organization, $3 since, $4
	// until, $5 limit, $6 offset.
	firstPages = selectItems + `FROM (SELECT item_id, starts_at FROM (
			(SELECT item_id, starts_at FROM items.occurrences WHERE feed_id = $1 AND starts_at >= $3::timestamptz - ` +
		maxShort + `
				AND starts_at <= $4 AND ends_at >= $3 AND previous < $3 ORDER BY starts_at, item_id LIMIT $5::bigint + $6::bigint)
			UNION ALL
			(SELECT item_id, starts_at FROM items.occurrences WHERE feed_id = $1 AND long AND starts_at < $3::timestamptz - ` +
		maxShort + `
				AND ends_at >= $3 AND previous < $3 ORDER BY starts_at, item_id LIMIT $5::bigint + $6::bigint)) both_kinds
		ORDER BY starts_at, item_id LIMIT $5 OFFSET $6) o
		CROSS JOIN LATERAL (SELECT * FROM items.items WHERE id = o.item_id OFFSET 0) i
		WHERE ` + mayRead + `ORDER BY o.starts_at, o.item_id`

	// outlinedPage reads a page of known items. Parameters: $1 feed, $2 organization, $3 ids.
	outlinedPage = selectItems + `FROM unnest($3::uuid[]) WITH ORDINALITY AS page (id, number)
		JOIN items.items i ON i.id = page.id
		WHERE ` + mayRead + `ORDER BY page.number`
)

const (
	// edges selects the instants between which since and until may move without an occurrence entering or leaving the
	// range. Parameters: $1 feed, $2 since, $3 until.
	edges = `(SELECT max(ends_at) FROM items.occurrences WHERE feed_id = $1 AND ends_at < $2),
		(SELECT min(ends_at) FROM items.occurrences WHERE feed_id = $1 AND ends_at >= $2),
		(SELECT max(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at <= $3),
		(SELECT min(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at > $3)`

	// maxShort is the longest duration of occurrences that are not long; see the schema of items.
	maxShort = `interval '25 hours'`

	// ofFeed selects the occurrences o of a feed in a range. Parameters: $1 feed, $2 since, $3 until.
	ofFeed = `(SELECT item_id, starts_at, previous, instance_status, instance_ends FROM items.occurrences
			WHERE feed_id = $1 AND starts_at >= $2::timestamptz - ` + maxShort + ` AND starts_at <= $3 AND ends_at >= $2
			UNION ALL SELECT item_id, starts_at, previous, instance_status, instance_ends FROM items.occurrences
			WHERE feed_id = $1 AND long AND starts_at < $2::timestamptz - ` + maxShort + ` AND ends_at >= $2) o `

	versionOfItems = `coalesce((SELECT version FROM items.feeds WHERE feed_id = $1), 0)`

	// countAll counts; parameters: $1 feed, $2 since, $3 until. It also selects the edges and the version of the
	// feed.
	countAll = `SELECT ` + versionOfItems + `, ` + edges + `,
		(SELECT count(*) FROM ` + ofFeed + `WHERE o.previous < $2)`

	// countMoved is countAll for the difference to another range, $8 to $9, and the occurrences between the two: from
	// $4 to before $5, and after $6 to $7. It selects their number, up to mostMoved+1.
	countMoved = `WITH between AS MATERIALIZED (
			SELECT item_id FROM items.occurrences WHERE feed_id = $1 AND ends_at >= $4 AND ends_at < $5
			UNION ALL SELECT item_id FROM items.occurrences WHERE feed_id = $1 AND starts_at > $6 AND starts_at <= $7 LIMIT 1001)
		SELECT ` + versionOfItems + `, ` + edges + `, (SELECT count(*) FROM between),
		(SELECT count(*) FILTER (WHERE is_there) - count(*) FILTER (WHERE was_there) FROM (SELECT DISTINCT item_id
		FROM between) b,
			LATERAL (SELECT bool_or(ends_at >= $2 AND starts_at <= $3) AS is_there, bool_or(ends_at >= $8
			AND starts_at <= $9) AS was_there
				FROM items.occurrences o WHERE o.item_id = b.item_id) o)`

	// The parameters of outlines are $1 feed, $2 since, $3 until and, with a status, $4 status and $5 now. They
	// select the version, the edges, the instants between which now may move without an instance becoming completed,
	// and the items.
	outlineHead = `SELECT ` + versionOfItems + `, ` + edges + `, `
	noInstants  = `NULL::timestamptz, NULL::timestamptz, `
	instants    = `(SELECT max(instance_ends) FROM items.occurrences WHERE feed_id = $1 AND ` + mayEnd + `
		AND instance_ends <= $5 AND ` + ends + `),
		(SELECT min(instance_ends) FROM items.occurrences WHERE feed_id = $1 AND ` + mayEnd + ` AND instance_ends > $5 AND ` +
		ends + `), `

	// An ended instance that was scheduled is completed.
	mayEnd      = `instance_status IN ('scheduled', 'rescheduled')`
	ends        = `$4::text IN ('scheduled', 'rescheduled', 'completed')`
	isOfStatus  = `CASE WHEN o.` + mayEnd + ` AND o.instance_ends <= $5 THEN 'completed' ELSE o.instance_status END = $4`
	ofRange     = `o.ends_at >= $2 AND o.starts_at <= $3 `
	allMatching = `WITH matching AS MATERIALIZED (SELECT DISTINCT o.item_id FROM ` + ofFeed + `WHERE ` + isOfStatus + `) `

	// The items are one opaque value.
	byOccurrence = `(SELECT string_agg(uuid_send(item_id) || timestamptz_send(starts_at), '' ORDER BY starts_at, item_id)
		FROM ` + ofFeed + `WHERE o.previous < $2`
	byAddition = `(SELECT string_agg(uuid_send(id) || timestamptz_send(added_at), '' ORDER BY added_at DESC, id)
		FROM items.items i WHERE i.feed_id = $1 AND i.id IN (`
	inRange  = `SELECT o.item_id FROM ` + ofFeed + `WHERE o.previous < $2`
	matching = `SELECT item_id FROM matching`

	// A derived outline also takes the ranges between its own and another outline's, like countMoved, and between
	// their nows. It selects the number of occurrences in these, and their items in the new order: at infinity if
	// they have left the list.
	betweenRanges = `WITH between AS MATERIALIZED (
			SELECT item_id FROM items.occurrences WHERE feed_id = $1 AND ends_at >= %s AND ends_at < %s
			UNION ALL SELECT item_id FROM items.occurrences WHERE feed_id = $1 AND starts_at > %s AND starts_at <= %s `
	betweenNows = `UNION ALL SELECT item_id FROM items.occurrences WHERE feed_id = $1 AND ` + mayEnd + ` AND ` + ends + `
				AND instance_ends > $10 AND instance_ends <= $11 `
	atMost      = `LIMIT 1001) `
	derivedTail = `(SELECT count(*) FROM between), (SELECT string_agg(uuid_send(item_id) || timestamptz_send(key), '')
		FROM (SELECT DISTINCT item_id FROM between) b, LATERAL (SELECT coalesce(%s, 'infinity') AS key
		FROM items.occurrences o
			WHERE o.item_id = b.item_id AND ` + ofRange + `) o)`
	earliest     = `min(o.starts_at)`
	earliestOf   = `CASE WHEN bool_or(` + isOfStatus + `) THEN min(o.starts_at) END`
	additionOf   = `CASE WHEN %s THEN (SELECT added_at FROM items.items i WHERE i.id = b.item_id) END`
	whereAny     = `count(*) > 0`
	whereAnyOfIt = `bool_or(` + isOfStatus + `)`
)

// outlineSQL returns the statement of an outline.
func outlineSQL(k outlineKind) string {
	head := outlineHead + noInstants
	if k.status != "" {
		head = allMatching + outlineHead + instants
	}
	switch {
	case k.order == OrderByCreated && k.status != "":
		return head + byAddition + matching + "))"
	case k.order == OrderByCreated:
		return head + byAddition + inRange + "))"
	case k.status != "":
		return head + byOccurrence + " AND o.item_id IN (" + matching + "))"
	default:
		return head + byOccurrence + ")"
	}
}

// derivedSQL returns the statement of an outline that is derived from another.
func derivedSQL(k outlineKind) string {
	head, key, there := fmt.Sprintf(betweenRanges, "$4", "$5", "$6", "$7")+atMost+outlineHead+noInstants, earliest,
		whereAny
	if k.status != "" {
		head = fmt.Sprintf(betweenRanges, "$6", "$7", "$8", "$9") + betweenNows + atMost + outlineHead + instants
		key, there = earliestOf, whereAnyOfIt
	}
	if k.order == OrderByCreated {
		key = fmt.Sprintf(additionOf, there)
	}
	return head + fmt.Sprintf(derivedTail, key)
}
