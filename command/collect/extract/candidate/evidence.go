package candidate

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"carillon/command/collect/identity"
)

// identify sets the evidence of an event: its address, and its identifiers.
func (o *observer) identify(c *Candidate) {
	own := c.Addresses
	idURL, page := o.identifyingURL(c.ID)
	c.pageID = page
	switch {
	case idURL != nil:
		c.ids = append(c.ids, identity.IDKey(idURL.String()))
	case c.ID != "" && !isWeb(c.ID):
		c.ids = append(c.ids, identity.IDKey(c.ID)) // such as a URN
	}
	if idURL != nil {
		own = append(slices.Clone(own), idURL)
	}
	if len(c.Addresses) == 0 {
		c.Addresses = own
	}
	c.ids = addNew(c.ids, c.IDs)
	for _, u := range own {
		if !o.namesMany(u) {
			c.url = u
			break
		}
	}
}

// isWeb reports whether an identifier is, or may be, a URL of the web.
func isWeb(id string) bool {
	u, err := url.Parse(id)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "")
}

// identifyingURL returns the id of an event if it is a URL of that event only: neither that of the page, nor the
// "#event" of templates.
func (o *observer) identifyingURL(id string) (u *url.URL, page bool) {
	u, err := url.Parse(id)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, false
	}
	if identity.IsGeneric(u.Fragment) {
		bare := *u
		bare.Fragment, bare.RawFragment = "", ""
		if key := identity.Canonical(&bare); key == identity.Canonical(o.URL) || key == identity.Canonical(o.Base) {
			return nil, true
		}
		u = &bare
	}
	if o.namesMany(u) {
		return nil, false
	}
	return u, false
}

// namesMany reports whether an address is that of the front page of the site, or of the listing that led to the page,
// and the page is another one. Publishers use these on all pages of events without an address.
func (p *Page) namesMany(u *url.URL) bool {
	front := func(u *url.URL) bool { return strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == "" }
	if front(u) && identity.SameSite(u, p.URL) && !front(p.URL) {
		return true
	}
	if p.Listing == nil {
		return false
	}
	listing := identity.Canonical(p.Listing)
	return identity.Canonical(u) == listing && identity.Canonical(p.URL) != listing
}

var (
	// variant matches the last part of the address of a variant of the page above it: a plain one, or a date.
	variant = regexp.MustCompile(`(?i)^(?:amp|print|\d{4}-\d{2}-\d{2})/*$`)
	number  = regexp.MustCompile(`(?:^|&)[^=&]*=\d+(?:&|$)`)
)

// isSection reports whether a canonical address is that of the section of a page, rather than its own: above it, or
// without its number. Templates that were copied from a listing have it on all pages.
func isSection(canonical, page *url.URL) bool {
	above, here := strings.TrimRight(canonical.Path, "/"), strings.TrimRight(page.Path, "/")
	if above == here {
		return canonical.RawQuery == "" && canonical.Fragment == "" && number.MatchString(page.RawQuery)
	}
	rest, within := strings.CutPrefix(here, above+"/")
	return within && canonical.RawQuery == "" && !variant.MatchString(rest)
}

// assignKeys sets the key of each candidate. It is its own URL, unless different events of the page share it; then an
// identifier; then the page's URL, if the page is about it; else page, title and venue.
//
// An event that has the page's URL as key had a key of page, title and venue while others shared that URL, and may
// have it again. So that key stays its alias, and the page's candidates with it are the same event. Conversely, the
// page's URL is the alias of the only event whose id is the page's: "#event", as listings may link it.
func (o *observer) assignKeys(candidates []*Candidate, subject *Candidate) {
	claims := o.claims(candidates)
	owners := map[string]*Candidate{} // of the page's URL, by page key
	for _, c := range candidates {
		if !o.budget.Work(50) {
			return
		}
		c.keys = o.strongKeys(c, claims)
		c.own = !o.Many && (c == subject || o.isOwnPage(c, claims))
		o.versions(c)
		if len(c.keys) > 0 {
			c.key = c.keys[0]
		} else {
			c.key = identity.PageKey(o.URL, c.name, c.venue)
		}
		switch {
		case o.Beside != nil && len(candidates) == 1:
			c.alias = identity.URLKey(o.Beside)
		case len(c.keys) == 0 && c.pageID && !o.Many && claims.sole(pageClaim) && !claims.others(o.canonicalKey, c):
			c.alias = o.canonicalKey
		case len(c.keys) == 1 && o.isPage(c.key):
			c.alias = identity.PageKey(o.URL, c.name, c.venue)
			if owners[c.alias] == nil {
				owners[c.alias] = c
			}
		}
	}
	for _, c := range candidates {
		if owner := owners[c.key]; owner != nil {
			c.key, c.keys, c.alias = owner.key, owner.keys, owner.alias
		}
	}
}

// isPage reports whether a key is that of the page's URL.
func (o *observer) isPage(key string) bool { return key == o.key || key == o.canonicalKey }

// claims has for each piece of evidence the candidates that claim it, by title and venue: one of them, and whether
// there are more.
type claims map[string]claim

type claim struct {
	who  string
	more bool
}

// pageClaim is the claim to an id that is the page's.
const pageClaim = "page"

func (c *Candidate) who() string { return c.plain + "|" + identity.Words(c.venue) }

func (cs claims) add(key string, c *Candidate) {
	who := c.who()
	have, ok := cs[key]
	switch {
	case !ok:
		cs[key] = claim{who: who}
	case have.who != who:
		cs[key] = claim{who: have.who, more: true}
	}
}

// sole reports whether the evidence belongs to one happening.
func (cs claims) sole(key string) bool {
	have, ok := cs[key]
	return ok && !have.more
}

// others reports whether another candidate claims the evidence.
func (cs claims) others(key string, c *Candidate) bool {
	have, ok := cs[key]
	return ok && (have.more || have.who != c.who())
}

func (o *observer) claims(candidates []*Candidate) claims {
	cs := make(claims, len(candidates))
	for _, c := range candidates {
		if !o.budget.Work(50) {
			return cs
		}
		if c.url != nil {
			c.urlKey = identity.URLKey(c.url)
			cs.add(c.urlKey, c)
		}
		for _, id := range c.ids {
			cs.add(id, c)
		}
		if c.pageID {
			cs.add(pageClaim, c)
		}
		if o.about(c) {
			cs.add(o.canonicalKey, c)
		}
	}
	return cs
}

// strongKeys returns the evidence that identifies a candidate beyond this page.
func (o *observer) strongKeys(c *Candidate, cs claims) []string {
	var keys []string
	// A page with many events, such as a calendar, is not an event's own page.
	if c.url != nil && cs.sole(c.urlKey) && (!o.Many || !o.isPage(c.urlKey)) {
		keys = append(keys, c.urlKey)
	}
	for _, id := range c.ids {
		if cs.sole(id) {
			keys = append(keys, id)
		}
	}
	if len(keys) == 0 && o.about(c) && cs.sole(o.canonicalKey) {
		keys = append(keys, o.canonicalKey)
	}
	return keys
}

// isOwnPage reports whether the page is an event's own: it is about no other, or only this event names it as its page.
func (o *observer) isOwnPage(c *Candidate, cs claims) bool {
	if o.about(c) && cs.sole(o.canonicalKey) {
		return true
	}
	return c.url != nil && o.isPage(c.urlKey) && cs.sole(c.urlKey)
}
