package query

// The statements of item lists.
//
// An item's first occurrence in the range is the one in it whose previous one is before the range. So the list in order
// of occurrence is a walk along an index until the page is full, and the total is counted without sorting. All other
// lists, and pages far from the beginning, are read by an outline.
const (
	// planOnce holds for the rest of the transaction, which is the round trip. The indexes to walk are the same
	// whatever the parameters: planning for each of them again would take three times as long as reading a page.
	planOnce = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true)`

	selectCurrent = `SELECT (SELECT v.version FROM items.feeds v WHERE v.feed_id = $1), i.current, i.source, i.occurrences `
	selectLegacy  = `SELECT (SELECT v.version FROM items.feeds v WHERE v.feed_id = $1), l.body, i.source, i.occurrences `
	joinLegacy    = `JOIN items.legacy l ON l.item_id = i.id `

	mayRead = `EXISTS (SELECT FROM feeds.feeds f WHERE f.id = $1 AND f.feed_type = 'event' AND (f.organization = $2
		OR EXISTS (SELECT FROM feeds.shares s WHERE s.feed_id = f.id AND s.organization = $2))) `

	// firstPages takes $1 feed, $2 organization, $3 since, $4 until, $5 limit, $6 offset.
	firstPages         = `FROM items.occurrences o JOIN items.items i ON i.id = o.item_id `
	inOrderOfFirst     = `WHERE o.feed_id = $1 AND o.starts_at >= $3 AND o.starts_at <= $4 AND o.previous < $3 AND `
	limitedInThatOrder = `ORDER BY o.starts_at, o.item_id LIMIT $5 OFFSET $6`

	// outlinedPage takes $1 feed, $2 organization, $3 ids.
	outlinedPage = `FROM unnest($3::uuid[]) WITH ORDINALITY AS page (id, number) JOIN items.items i ON i.id = page.id `
	inThatOrder  = `ORDER BY page.number`
)

// firstPagesSQL puts the statement of a list in order of occurrence together.
func firstPagesSQL(in ItemsQuery) string {
	if in.Legacy {
		return selectLegacy + firstPages + joinLegacy + inOrderOfFirst + mayRead + limitedInThatOrder
	}
	return selectCurrent + firstPages + inOrderOfFirst + mayRead + limitedInThatOrder
}

// outlinedPageSQL puts the statement of a page whose items are known together.
func outlinedPageSQL(in ItemsQuery) string {
	if in.Legacy {
		return selectLegacy + outlinedPage + joinLegacy + "WHERE " + mayRead + inThatOrder
	}
	return selectCurrent + outlinedPage + "WHERE " + mayRead + inThatOrder
}

const (
	// edges are the instants between which since and until may move without an occurrence coming into the range or
	// leaving it. They take $1 feed, $2 since, $3 until.
	edges = `(SELECT max(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at < $2),
		(SELECT min(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at >= $2),
		(SELECT max(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at <= $3),
		(SELECT min(starts_at) FROM items.occurrences WHERE feed_id = $1 AND starts_at > $3)`

	versionOfItems = `coalesce((SELECT version FROM items.feeds WHERE feed_id = $1), 0)`

	// countAll takes $1 feed, $2 since, $3 until. It also tells the edges, and the version of the feed that it is of.
	countAll = `SELECT ` + versionOfItems + `, ` + edges + `,
		(SELECT count(*) FROM items.occurrences o WHERE o.feed_id = $1 AND o.starts_at >= $2 AND o.starts_at <= $3 AND o.previous < $2)`

	// The outlines take $1 feed, $2 since, $3 until, and those of a status $4 status and $5 now. They tell the version,
	// the edges, the instants between which now may move without an instance becoming completed, and the ids.
	outlineHead = `SELECT ` + versionOfItems + `, ` + edges + `, `
	noMoments   = `NULL::timestamptz, NULL::timestamptz, `
	moments     = `(SELECT max(instance_ends) FILTER (WHERE instance_ends <= $5) FROM ended), (SELECT min(instance_ends) FILTER (WHERE instance_ends > $5) FROM ended), `

	ofRange = `o.feed_id = $1 AND o.starts_at >= $2 AND o.starts_at <= $3 `

	// An instance that was to take place and has ended is completed. ended are those that do so at some time.
	ofStatus = `WITH ended AS (SELECT o.instance_ends FROM items.occurrences o
			WHERE ` + ofRange + `AND o.instance_status IN ('scheduled', 'rescheduled') AND $4 IN ('scheduled', 'rescheduled', 'completed')),
		matching AS MATERIALIZED (SELECT DISTINCT o.item_id FROM items.occurrences o WHERE ` + ofRange + `
			AND CASE WHEN o.instance_status IN ('scheduled', 'rescheduled') AND o.instance_ends <= $5
				THEN 'completed' ELSE o.instance_status END = $4) `

	// The ids are one value, 16 bytes each, which is read without looking at them.
	idsByOccurrence = `(SELECT string_agg(uuid_send(item_id), '' ORDER BY starts_at, item_id) FROM items.occurrences o WHERE ` + ofRange + `AND o.previous < $2`
	idsByAddition   = `(SELECT string_agg(uuid_send(id), '' ORDER BY added_at DESC, id) FROM items.items i WHERE i.feed_id = $1 AND i.id IN (`
	inRange         = `SELECT o.item_id FROM items.occurrences o WHERE ` + ofRange + `AND o.previous < $2`
	ofMatching      = ` AND o.item_id IN (SELECT item_id FROM matching)`
	allMatching     = `SELECT item_id FROM matching`
)

// outlineSQL puts the statement of an outline together.
func outlineSQL(k outlineKind) string {
	head := outlineHead + noMoments
	if k.status != "" {
		head = ofStatus + outlineHead + moments
	}
	switch {
	case k.order == OrderByCreated && k.status != "":
		return head + idsByAddition + allMatching + "))"
	case k.order == OrderByCreated:
		return head + idsByAddition + inRange + "))"
	case k.status != "":
		return head + idsByOccurrence + ofMatching + ")"
	default:
		return head + idsByOccurrence + ")"
	}
}
