package visiting

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
)

// Gathering combines the pages of a source as walks do, without recording anything. The zero value is empty.
type Gathering struct {
	known    []Shown
	places   map[uuid.UUID]int // indexes of known, by happening
	tellings map[uuid.UUID][]Told
	pages    int
}

// Add adds the observations of a page at a time.
func (g *Gathering) Add(page string, observations []collect.Observation, now time.Time) error {
	if g.tellings == nil {
		g.tellings, g.places = map[uuid.UUID][]Told{}, map[uuid.UUID]int{}
	}
	x, err := newIdentification(observations, now)
	if err == nil {
		err = x.resolve(slices.Clone(g.known), memory{told: g.observed})
	}
	if err != nil {
		return err
	}
	g.pages++
	since := time.Unix(int64(g.pages), 0) // the page that was read first has precedence
	for _, t := range x.tellings {
		g.remember(&t)
		g.tellings[t.Happening] = append(g.tellings[t.Happening], Told{
			Observation: t.Observation,
			Page:        uuid.NewSHA1(uuid.NameSpaceURL, []byte(page)),
			Since:       since,
			DatedAt:     since,
		})
	}
	return nil
}

// observed returns the details that the pages show of happenings.
func (g *Gathering) observed(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
	all := map[uuid.UUID][]happening.Details{}
	for _, id := range ids {
		for _, t := range g.tellings[id] {
			all[id] = append(all[id], t.Observation.Details)
		}
	}
	return all, nil
}

func (g *Gathering) remember(t *Telling) {
	i, ok := g.places[t.Happening]
	if !ok {
		i = len(g.known)
		g.places[t.Happening] = i
		g.known = append(g.known, Shown{Identity: Identity{Happening: t.Happening, Key: t.Key}})
	}
	known := &g.known[i]
	known.Dates = append(known.Dates, t.Dates)
	for _, e := range t.Evidence {
		if !slices.Contains(known.Evidence, e) {
			known.Evidence = append(known.Evidence, e)
		}
	}
}

// Together returns one observation for each happening, in the order of their first appearance.
func (g *Gathering) Together() []collect.Observation {
	all := make([]collect.Observation, len(g.known))
	for i, known := range g.known {
		tellings := g.tellings[known.Happening]
		all[i] = together(uuid.Nil, tellings)
		all[i].Key = known.Key
	}
	return all
}
