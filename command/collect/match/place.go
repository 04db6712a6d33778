package match

import (
	"net/url"
	"slices"
	"strings"

	"carillon/aggregates/happening"
)

// place is the place of a happening, prepared for comparison.
type place struct {
	venue  []string // words of its name, without its rooms
	room   []string
	parts  bool     // all words of venue are names of rooms: the house has another name
	where  []string // words of its address
	point  *happening.Coordinates
	online string // link without its scheme
	host   string
}

// placeVerdict is the result of a comparison of places.
type placeVerdict int

const (
	samePlace placeVerdict = iota
	otherPlace
	otherRoom
	unknownPlace
)

// roomWords name a part of a house.
var roomWords = setOf(`saal saele hall halle room stage buhne sala salon salle raum foyer studio lounge keller bar ` +
	`garten auditorium
	aula zimmer kino screen etage floor stock hof terrasse cafe bibliothek library chapel kapelle zelt tent podium ` +
	`bohne palco scene
	zaal rum lokal sal atelier theke galerie court field platz pitch arena level gate`)

// emptyWords do not distinguish places.
var emptyWords = setOf(`the of at in on a an and im in am an der die das den dem des von vom zu zur zum und bei le ` +
	`la les l de du des et a au aux il lo
	gli i di del della dei al alla e ed da el los las en y het een op van te og i pa på och`)

// partWords distinguish parts of a house, besides roomWords.
var partWords = setOf(`grosser grosse grosses gross kleiner kleine kleines klein great grand large big small little ` +
	`main upper lower obere oberer unterer
	untere grande piccola piccolo principale petit petite haupt neben blue red green black white blau rot schwarz weiss ` +
	`links rechts left right
	nord sud ost west north south east a b c d i ii iii iv`)

func placeOf(d happening.Details) place {
	var p place
	l := d.Location
	if l == nil {
		return p
	}
	if l.Venue != nil {
		all := split(l.Venue.Name)
		p.parts = len(all) > 0
		for i, word := range all {
			isRoom := roomWords[word] || partWords[word] || number(word) || hasSuffix(word, "saal", "halle", "raum", "buhne",
				"zimmer", "zaal")
			p.parts = p.parts && (isRoom || emptyWords[word]) && !businesses[word]
			switch {
			case emptyWords[word] && !partWords[word]:
			case isRoom && (i > 0 || len(all) > 1):
				p.room = append(p.room, word)
			default:
				p.venue = append(p.venue, concepts(word)...)
			}
		}
		if len(p.venue) == 0 { // "Great hall" is the name of the house
			p.venue, p.room = p.room, nil
		}
	}
	address := l.DisplayAddress
	if l.Venue != nil {
		address = strings.TrimPrefix(address, l.Venue.Name)
		if l.Venue.Address != "" {
			address = l.Venue.Address
		}
	}
	if l.Online == nil || l.Venue != nil || l.Coordinates != nil {
		for _, word := range split(address) {
			if !emptyWords[word] {
				p.where = append(p.where, concepts(word)...)
			}
		}
	}
	p.point = l.Coordinates
	if l.Online != nil {
		if u, err := url.Parse(l.Online.URL); err == nil {
			p.host = strings.TrimPrefix(u.Hostname(), "www.")
			p.online = p.host + strings.TrimSuffix(u.EscapedPath(), "/") + "?" + u.RawQuery
		}
	}
	return p
}

func hasSuffix(word string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return len(word) > len(s) && strings.HasSuffix(word, s) })
}

// known reports whether the happening has a physical place.
func (p place) known() bool { return len(p.venue) > 0 || p.point != nil || len(p.where) > 0 }

// houseWords are kinds of houses, besides those of generic, that every town has.
var houseWords = setOf(`kulturhaus kulturzentrum jugendzentrum vereinshaus pfarrheim gemeindehaus volkshaus halle ` +
	`haus house casa maison zentrum centre
	center centro forum galerie gallery galleria club cafe bar pub hotel restaurant gasthof gasthaus auditorium arena
	pfarrsaal vereinssaal gemeindesaal stadtsaal festsaal stadthalle mehrzweckhalle sporthalle turnhalle`)

// businesses are kinds of houses, and parts of them with another owner, of which several may share a number.
var businesses = setOf(`bar pub club cafe lounge tavern taverne inn bistro brasserie brewery brauerei kneipe diner ` +
	`saloon taproom restaurant
	trattoria pizzeria osteria enoteca bodega cantina cellar keller studio loft atelier gallery galerie galleria kino ` +
	`cinema library bibliothek
	garten garden shop store salon parlour theke`)

// distinctive returns the words of a name or an address that identify the place; all of them if none does.
func distinctive(name []string) []string {
	if own := identifying(name); len(own) > 0 {
		return own
	}
	return name
}

// identifying returns the words of a name that identify the place.
func identifying(name []string) []string {
	return slices.DeleteFunc(slices.Clone(name), func(word string) bool {
		return houseWords[word] || businesses[word] || generic[word] > 0 || number(word) || strings.HasPrefix(word, "@")
	})
}

func (p place) marks() []string {
	var all []string
	for _, word := range firstOf(distinctive(p.venue), 3) {
		all = append(all, "v:"+word)
	}
	if len(p.venue) == 0 {
		for _, word := range firstOf(distinctive(p.where), 3) {
			all = append(all, "v:"+word)
		}
	}
	if p.point != nil {
		const reach = 0.0018 // degrees, 200 m
		for _, lat := range []float64{-reach, reach} {
			for _, lng := range []float64{-2 * reach, 2 * reach} {
				if c := "g:" + cell(p.point.Lat+lat, p.point.Lng+lng); !slices.Contains(all, c) {
					all = append(all, c)
				}
			}
		}
	}
	if p.host != "" {
		all = append(all, "o:"+p.host)
	}
	return all
}

func (p place) compare(o place) placeVerdict {
	if !p.known() || !o.known() {
		switch {
		case p.online != "" && p.online == o.online:
			return samePlace
		case p.online != "" && o.online != "" && !p.known() && !o.known():
			if p.host != o.host {
				return unknownPlace // a page and the meeting behind it
			}
			return otherPlace
		}
		return unknownPlace
	}
	named := len(p.venue) > 0 && len(o.venue) > 0
	near := p.point != nil && o.point != nil && metres(*p.point, *o.point) <= nearPlace
	far := p.point != nil && o.point != nil && metres(*p.point, *o.point) > samePlaces
	sameName := named && wordsAgree(p.venue, o.venue)
	sameAddress := addressesAgree(p.where, o.where)
	switch {
	case far:
		return otherPlace
	case !near && !sameName && !sameAddress && !p.within(o) && !o.within(p):
		if named || p.point != nil && o.point != nil {
			return otherPlace
		}
		return unknownPlace
	case sameName && !near && p.elsewhere(o):
		return otherPlace
	case len(p.room) > 0 && len(o.room) > 0 && !roomsAgree(p.room, o.room):
		return otherRoom
	case near && named && !sameName && !sameAddress && p.neighbours(o):
		return otherPlace
	case sameAddress && named && !sameName:
		return p.underOneNumber(o)
	}
	return samePlace
}

// within reports whether the other's address contains this venue, as addresses in one text do.
func (p place) within(o place) bool {
	return len(p.venue) > 1 && len(o.venue) == 0 && !hasMore(p.venue, o.where)
}

// neighbours reports whether two nearby venues have names with nothing in common, and different houses.
func (p place) neighbours(o place) bool {
	sameHouse := slices.ContainsFunc(p.where, func(word string) bool {
		return houseNumber(word) && slices.Contains(o.where, word)
	})
	return len(p.where) > 1 && len(o.where) > 1 && !sameHouse && !sharesWord(p.venue, o.venue)
}

// elsewhere reports whether the addresses have nothing in common: each town has a town hall.
func (p place) elsewhere(o place) bool {
	return len(p.where) > 0 && len(o.where) > 0 && !sharesWord(town(p.where), town(o.where)) &&
		!addressesAgree(p.where, o.where)
}

// likeness returns the likeness of two compared places: 1 of the same and of two unknown ones, 0 of different ones.
func (p place) likeness(o place, where placeVerdict) float64 {
	switch {
	case where == samePlace, !p.known() && !o.known() && p.online == o.online:
		return 1
	case where == unknownPlace:
		return 0.5
	}
	return 0
}

func sharesWord(a, b []string) bool {
	return slices.ContainsFunc(a, func(word string) bool { return !lacks(b, word) })
}

// hasMore reports whether a name has a word that the other lacks.
func hasMore(a, b []string) bool {
	return slices.ContainsFunc(a, func(word string) bool { return lacks(b, word) })
}

// lacks reports whether no word of a name means the same as a word.
func lacks(name []string, word string) bool {
	return !slices.ContainsFunc(name, func(other string) bool { return wordsEqual(word, other) })
}

// wordsAgree reports whether two names mean the same: all words of the shorter one are in the other.
func wordsAgree(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	const minLetters = 6 // letters
	if x, y := strings.Join(a, ""), strings.Join(b, ""); len(x) >= minLetters && strings.Contains(y, x) ||
		len(y) >= minLetters && strings.Contains(x, y) {
		return true // "Jazzclub", "Jazz Club"
	}
	missing := 0
	for _, x := range a {
		if lacks(b, x) {
			missing++
		}
	}
	return missing == 0 || missing == 1 && len(a) > 3
}

// addressesAgree reports whether street and number are the same.
func addressesAgree(a, b []string) bool {
	for i, x := range a {
		for j, y := range b {
			if x == y && houseNumber(x) && sharesWord(beside(a, i), beside(b, j)) {
				return true
			}
		}
	}
	return false
}

func houseNumber(word string) bool { return len(word) < 5 && word[0] >= '0' && word[0] <= '9' }

// beside returns the words around a number that may name its street: "12 High Street", "Via Roma 12".
func beside(words []string, i int) []string {
	near := words[max(0, i-2):i]
	if i == 0 {
		near = words[1:min(len(words), 3)]
	}
	return slices.DeleteFunc(slices.Clone(near), isNoName)
}

// isNoName reports whether a word of an address names neither street nor town.
func isNoName(word string) bool { return word == "#street" || word == "#square" || houseNumber(word) }

// town returns the words of an address after the number of the house.
func town(where []string) []string {
	if i := slices.IndexFunc(where, houseNumber); i >= 0 && i+1 < len(where) {
		where = where[i+1:]
	}
	return slices.DeleteFunc(slices.Clone(where), isNoName)
}

func roomsAgree(a, b []string) bool {
	own := func(x, y []string) bool {
		return slices.ContainsFunc(x, func(w string) bool { return !roomWords[w] && lacks(y, w) })
	}
	ownA, ownB := own(a, b), own(b, a)
	return !ownA && !ownB || (!ownA || !ownB) && (!hasMore(a, b) || !hasMore(b, a))
}
