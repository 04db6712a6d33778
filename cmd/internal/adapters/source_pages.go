package adapters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/collect"
	"carillon/command/visiting"
)

const (
	// A page is written once, whatever came of it.
	thisPage = ` WHERE source_id = $1 AND page = $2`
	asking   = `UPDATE carillon.source_pages SET ahead = false, asked_at = clock_timestamp(), outcome = $3, notes = $4,
		lasting = lasting AND $3 <> 'gone'`
	reading = asking + `, read_at = clock_timestamp(), read_modified = modified, state = $5`

	askedPage = asking + thisPage
	readPage  = reading + `, barren = CASE WHEN shown > 0 THEN 0 ELSE barren + 1 END` + thisPage
	sawPage   = reading + `, shown = $6, until = $7, barren = CASE WHEN $6 > 0 THEN 0 ELSE barren + 1 END` + thisPage
	// It may still show its former happenings.
	sawPart = reading + `, shown = greatest(shown, $6), until = greatest(until, $7),
		barren = CASE WHEN greatest(shown, $6) > 0 THEN 0 ELSE barren + 1 END` + thisPage

	knownColumns = `address, role, list, lasting, modified, read_at, read_modified, shown, until, barren, asked_at`
	knownPages   = `SELECT ` + knownColumns + `, page, walk FROM carillon.source_pages WHERE source_id = $1 AND `
	keepLinks    = `
		INSERT INTO carillon.source_pages AS p (source_id, page, address, role, list, lasting, root, modified, listed_by,
		evidence, walk, ahead, rank)
		SELECT $1, page, address, role, list, lasting, $2, modified, $3, evidence, $4, ahead, rank
		FROM unnest($5::uuid[], $6::text[], $7::text[], $8::boolean[], $9::boolean[], $10::text[], $11::uuid[],
		$12::boolean[], $13::smallint[])
			WITH ORDINALITY AS l (page, address, role, list, lasting, modified, evidence, ahead, rank, place) ORDER BY place
		ON CONFLICT (source_id, page) DO UPDATE SET role = excluded.role, list = excluded.list, lasting = excluded.lasting,
		root = excluded.root,
			modified = excluded.modified, listed_by = excluded.listed_by, walk = excluded.walk, ahead = excluded.ahead,
			rank = excluded.rank, place = DEFAULT
		WHERE p.walk < excluded.walk`
)

// Record implements visiting.Walk.
func (w *walk) Record(
	ctx context.Context, visited collect.Visited, sightings []visiting.Sighting, tally visiting.Tally,
) error {
	clean := make(collect.Notes, len(visited.Page.Notes))
	for i, note := range visited.Page.Notes {
		clean[i] = collect.Note{Code: note.Code, Text: storedName(note.Text)}
	}
	notes, err := json.Marshal(clean)
	if err != nil {
		return wrap("notes of page", err)
	}
	encoded, err := encodeTally(tally)
	if err != nil {
		return err
	}
	page := visiting.PageID(visited.Known.Address)
	links, err := w.linksFrom(ctx, page, visited)
	if err != nil {
		return wrap("record page", err)
	}
	whole := visited.Err == nil && !visited.Page.Unchanged || collect.Gone(visited.Err) // else it says what it said
	shown, err := w.rowsOfSightings(page, sightings)
	if err != nil {
		return err
	}
	if w.left {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.waiting, w.known, w.asked = nil, false, false
	w.next = slices.DeleteFunc(w.next, func(k collect.Known) bool { return k.Address == visited.Known.Address })
	var waiting []visiting.View
	var kept keptSightings
	concerned := w.concerned(visited.Known.Address, sightings)
	next := step{asked: 1, linked: links.count, tally: encoded}
	if len(shown.fresh) > 0 && whole {
		next.fresh = page
	}
	err = w.held(ctx, "record page", next, func(batch *pgx.Batch) {
		queuePage(batch, w.source, page, &visited, notes)
		links.queue(batch)
		if whole {
			shown.queue(batch, w.source, page, visited.Page.Partial, w.number, &kept)
		}
		w.queueNext(batch, len(w.next) == 0 || len(links.pages) > 0)
		if len(concerned) > 0 {
			batch.Queue(fmt.Sprintf(selectWaiting, someWaiting), w.source, w.number, visiting.MaxWaiting, concerned).
				Query(func(rows pgx.Rows) (err error) {
					waiting, err = collectViews(rows)
					return err
				})
		}
	})
	if err != nil {
		w.next = nil // the pages ahead are queried
		return err
	}
	w.asked = true
	if whole {
		w.settling(shown.fresh, kept.waiting)
	}
	if kept.dropped == 0 && len(waiting) < visiting.MaxWaiting {
		w.waiting, w.known = append(w.waiting, waiting...), true
	}
	return nil
}

// queuePage keeps what came of a page.
func queuePage(batch *pgx.Batch, source, page uuid.UUID, visited *collect.Visited, notes []byte) {
	outcome, state := outcomeOf(*visited), storableState(visited.Page.State)
	switch p := &visited.Page; {
	case visited.Err != nil:
		batch.Queue(askedPage, source, page, outcome, notes)
	case p.Unchanged:
		batch.Queue(readPage, source, page, outcome, notes, state)
	case p.Partial:
		batch.Queue(sawPart, source, page, outcome, notes, state, len(p.Observations), orNil(p.Until()))
	default:
		batch.Queue(sawPage, source, page, outcome, notes, state, len(p.Observations), orNil(p.Until()))
	}
}

// concerned are the happenings to search for once a page is recorded: those on it that the source was known to show,
// and those of other pages that may have waited for it. It may leave some waiting ones out; the walk's end compares
// them.
func (w *walk) concerned(address string, sightings []visiting.Sighting) []uuid.UUID {
	if w.behind == nil {
		w.behind = map[uuid.UUID][]uuid.UUID{}
	}
	own := visiting.PageEvidence(address)
	all := w.behind[own]
	delete(w.behind, own)
	for i := range sightings {
		if !sightings[i].New {
			all = append(all, sightings[i].Happening)
		}
		for _, e := range sightings[i].Evidence {
			if e != own {
				w.behind[e] = append(w.behind[e], sightings[i].Happening)
			}
		}
	}
	return all
}

func outcomeOf(visited collect.Visited) string {
	switch {
	case collect.Gone(visited.Err):
		return "gone"
	case visited.Err != nil:
		return "failed"
	case visited.Page.Partial:
		return "partial"
	case visited.Page.Unchanged:
		return "unchanged"
	}
	return "read"
}

// storableState is the stored state of a page; nil for none.
func storableState(state collect.State) []byte {
	if len(state) == 0 || len(state) > collect.MaxState || !json.Valid(state) ||
		strings.Contains(string(state), `\u0000`) {
		return nil
	}
	return state
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// linksFrom returns the pages that a page adds to the walk. A list that is unchanged, or fails, links what it linked
// before.
func (w *walk) linksFrom(ctx context.Context, page uuid.UUID, visited collect.Visited) (pageRows, error) {
	l := linking{links: visited.Page.Links, from: &page}
	if (visited.Err != nil || visited.Page.Unchanged) && !collect.Gone(visited.Err) {
		listed, err := w.linkedBy(ctx, "listed_by = $2 ORDER BY place", page)
		if err != nil {
			return pageRows{}, err
		}
		l.links = append(l.links, listed...)
	}
	return w.rowsOf(ctx, l)
}

// linkedBy returns the links of the pages of a condition, which has one parameter.
func (w *walk) linkedBy(ctx context.Context, condition string, parameter any) ([]collect.Link, error) {
	rows, _ := w.pool.Query(ctx, knownPages+condition, w.source, parameter)
	pages, err := pgx.CollectRows(rows, scanPage)
	links := make([]collect.Link, len(pages))
	for i := range pages {
		links[i] = pages[i].Link
	}
	return links, err
}

// linking is links that a walk came across.
type linking struct {
	links []collect.Link
	from  *uuid.UUID // the page that links them
	root  bool       // the walk begins with them
}

// rowsOf returns links that the walk has not come across before as rows, by the memory of their pages.
func (w *walk) rowsOf(ctx context.Context, l linking) (pageRows, error) {
	add := pageRows{walk: w, linking: l}
	links := make(map[uuid.UUID]collect.Link, len(l.links))
	ids := make([]uuid.UUID, 0, len(l.links))
	for _, link := range l.links {
		link.Address, link.Modified, link.Role = storedName(link.Address), storedName(link.Modified), storedName(link.Role)
		id := visiting.PageID(link.Address)
		if _, twice := links[id]; twice || link.Address == "" || len(link.Address) > collect.MaxAddress {
			continue
		}
		ids, links[id] = append(ids, id), link
	}
	if len(ids) == 0 {
		return add, nil
	}
	rows, _ := w.pool.Query(ctx, knownPages+"page = ANY ($2)", w.source, ids)
	list, err := pgx.CollectRows(rows, scanPage)
	if err != nil {
		return add, err
	}
	known := make(map[uuid.UUID]knownPage, len(list))
	for _, p := range list {
		known[p.page] = p
	}
	now := time.Now()
	for _, id := range ids {
		p := known[id]
		if p.walk == w.number && p.page == id {
			continue // this walk has come across it
		}
		rank, ahead := collect.Ahead(links[id], p.Known, now)
		if l.root {
			rank, ahead = 0, true
		}
		if ahead {
			add.count++
		}
		add.row(id, links[id], rank, ahead)
	}
	return add, nil
}

// pageRows are links as columns.
type pageRows struct {
	walk    *walk
	linking linking
	count   int // of those that are ahead

	pages, evidence            []uuid.UUID
	addresses, roles, modified []string
	lists, lasting, ahead      []bool
	ranks                      []int16
}

func (r *pageRows) row(id uuid.UUID, link collect.Link, rank int, ahead bool) {
	r.pages, r.evidence = append(r.pages, id), append(r.evidence, visiting.PageEvidence(link.Address))
	r.addresses, r.roles, r.modified = append(r.addresses, link.Address), append(r.roles, link.Role), append(r.modified,
		link.Modified)
	r.lists, r.lasting = append(r.lists, link.List), append(r.lasting, link.Lasting)
	r.ahead, r.ranks = append(r.ahead, ahead), append(r.ranks, int16(rank)) //nolint:gosec // a handful
}

// queue adds the pages to the walk.
func (r *pageRows) queue(batch *pgx.Batch) {
	if len(r.pages) > 0 {
		batch.Queue(keepLinks, r.walk.source, r.linking.root, r.linking.from, r.walk.number, r.pages, r.addresses,
			r.roles, r.lists,
			r.lasting, r.modified, r.evidence, r.ahead, r.ranks)
	}
}

// knownPage is a page in the memory of walks.
type knownPage struct {
	collect.Known

	page uuid.UUID
	walk int
}

func scanPage(row pgx.CollectableRow) (p knownPage, err error) {
	err = scanKnown(row, &p.Known, &p.page, &p.walk)
	return p, err
}
