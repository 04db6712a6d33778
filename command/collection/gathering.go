package collection

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
)

// Gathering puts together what the pages of a source tell, as walks do, for those who record nothing. The zero value is
// empty.
type Gathering struct {
	known    []Identity
	places   map[uuid.UUID]int // of the known, by happening
	tellings map[uuid.UUID][]Told
	pages    int
}

// Add adds what a page shows.
func (g *Gathering) Add(page string, observations []collect.Observation) {
	if g.tellings == nil {
		g.tellings, g.places = map[uuid.UUID][]Told{}, map[uuid.UUID]int{}
	}
	tellings := make([]Telling, len(observations))
	for i, o := range observations {
		tellings[i] = Telling{Identity: identityOf(o), Observation: o}
	}
	resolve(tellings, g.known)
	g.pages++
	since := time.Unix(int64(g.pages), 0) // of equals, who told first is heard first
	for _, t := range tellings {
		g.remember(t.Identity)
		g.tellings[t.Happening] = append(g.tellings[t.Happening], Told{
			Observation: t.Observation, Page: uuid.NewSHA1(uuid.NameSpaceURL, []byte(page)), Since: since, DatedAt: since,
		})
	}
}

func (g *Gathering) remember(id Identity) {
	i, ok := g.places[id.Happening]
	if !ok {
		g.places[id.Happening] = len(g.known)
		g.known = append(g.known, id)
		return
	}
	for _, e := range id.Evidence {
		if !slices.Contains(g.known[i].Evidence, e) {
			g.known[i].Evidence = append(g.known[i].Evidence, e)
		}
	}
}

// Together gives an observation for each happening, in the order in which they were first shown.
func (g *Gathering) Together() []collect.Observation {
	all := make([]collect.Observation, len(g.known))
	for i, known := range g.known {
		tellings := g.tellings[known.Happening]
		all[i] = together(uuid.Nil, tellings)
		all[i].Key = tellings[0].Observation.Key
	}
	return all
}
