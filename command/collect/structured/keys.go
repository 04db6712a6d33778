package structured

import (
	"slices"

	"carillon/command/collect/identity"
)

// assignKeys decides what identifies each candidate. Its own URL does, unless
// others of the page share it that are not the same; then an identifier; then
// the page's URL, if the page is about it; else page, title and venue have to do.
func (d *document) assignKeys(candidates []*candidate) {
	claims := d.claims(candidates)
	for _, c := range candidates {
		c.keys = d.strongKeys(c, claims)
		if len(c.keys) > 0 {
			c.key = c.keys[0]
		} else {
			c.key = identity.PageKey(d.page.URL, c.name, c.venue)
		}
	}
}

// claims holds for each piece of evidence who claims it, by title and venue.
type claims map[string][]string

func (cs claims) add(key string, c *candidate) {
	if who := identity.Title(c.name) + "|" + identity.Words(c.venue); !slices.Contains(cs[key], who) {
		cs[key] = append(cs[key], who)
	}
}

// sole says that the evidence is of one happening.
func (cs claims) sole(key string) bool { return len(cs[key]) == 1 }

func (d *document) claims(candidates []*candidate) claims {
	cs := claims{}
	for _, c := range candidates {
		if c.url != nil {
			cs.add(identity.URLKey(c.url), c)
		}
		for _, id := range c.ids {
			cs.add(id, c)
		}
		if d.about(c.name) {
			cs.add(identity.URLKey(d.canonical), c)
		}
	}
	return cs
}

// strongKeys gives what identifies a candidate beyond this page.
func (d *document) strongKeys(c *candidate, cs claims) []string {
	var keys []string
	page, canonical := identity.URLKey(d.page.URL), identity.URLKey(d.canonical)
	if c.url != nil {
		// The page's own URL is an event's only on the event's own page.
		if key := identity.URLKey(c.url); cs.sole(key) && (key != page && key != canonical || d.about(c.name)) {
			keys = append(keys, key)
		}
	}
	for _, id := range c.ids {
		if cs.sole(id) {
			keys = append(keys, id)
		}
	}
	if len(keys) == 0 && d.about(c.name) && cs.sole(canonical) {
		keys = append(keys, canonical)
	}
	return keys
}
