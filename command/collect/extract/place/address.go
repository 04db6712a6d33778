// Package place interprets places: postal addresses from their parts or from text, the possible timezones of a place,
// the geo locations of a happening, and the names of online platforms.
//
// Zones are found by country, region, principal city and, last, distance of coordinates from a zone's principal place,
// from embedded tables. A few places near a border get the wrong zone, which matters only for times without an offset.
package place

import (
	"regexp"
	"slices"
	"strings"
)

// Address has the parts of a postal address, each of which is optional.
type Address struct {
	Street     string
	Locality   string
	Region     string
	PostalCode string
	// Country is a name or a code, as in the source.
	Country string
}

// String returns the address in one line, in the order of its country.
func (a Address) String() string {
	var parts []string
	add := func(part string) {
		if part = strings.Trim(strings.TrimSpace(part), ","); part == "" {
			return
		}
		// Some publishers write the whole address into the street and repeat its parts elsewhere.
		for _, have := range parts {
			if a.states(have, part) {
				return
			}
		}
		parts = append(parts, part)
	}
	add(a.Street)
	if a.codeComesLast() {
		add(a.Locality)
		add(strings.TrimSpace(a.Region + " " + a.PostalCode))
	} else {
		add(strings.TrimSpace(a.PostalCode + " " + a.Locality))
		if fold(a.Region) != fold(a.Locality) {
			add(a.Region)
		}
	}
	add(a.Country)
	return strings.Join(parts, ", ")
}

// states reports whether a part of an address says another one too: at its end or before a comma, or anywhere if it has
// the postal code, too. "Bath Road 3" does not say Bath.
func (a Address) states(have, part string) bool {
	have, part = fold(have), fold(part)
	if code := fold(a.PostalCode); code != "" && strings.Contains(have, code) {
		return strings.Contains(have, part)
	}
	for piece := range strings.SplitSeq(have, ",") {
		if piece = strings.TrimSpace(piece); piece == part || strings.HasSuffix(piece, " "+part) {
			return true
		}
	}
	return false
}

// Within completes the address of a place with that of its container, unless they name different towns or countries.
func (a Address) Within(outer Address) Address {
	differ := func(x, y string) bool { return x != "" && y != "" && fold(x) != fold(y) }
	if differ(a.Locality, outer.Locality) || differ(a.Country, outer.Country) {
		return a
	}
	for _, part := range []struct {
		into *string
		from string
	}{
		{&a.Street, outer.Street}, {&a.Locality, outer.Locality}, {&a.Region, outer.Region},
		{&a.PostalCode, outer.PostalCode},
		{&a.Country, outer.Country},
	} {
		if *part.into == "" {
			*part.into = part.from
		}
	}
	return a
}

// IsZero reports whether nothing is known.
func (a Address) IsZero() bool { return a == Address{} }

// codeComesLast reports whether the postal code follows the town: "Denver, CO 80209" but "8401 Winterthur".
func (a Address) codeComesLast() bool {
	switch a.CountryCode() {
	case "US", "CA", "AU", "GB", "IE", "IN", "NZ", "ZA", "BR":
		return true
	case "":
		return a.Region != ""
	}
	return false
}

// CountryCode returns the ISO 3166 code of the country, "" if it is unknown.
func (a Address) CountryCode() string { return loadTables().countries[fold(a.Country)] }

var (
	stateAndCode = regexp.MustCompile(`^([A-Z]{2,3})\s+(\d{4,5}(?:-\d{4})?|[A-Z]\d[A-Z] ?\d[A-Z]\d)$`)
	postalCode   = regexp.MustCompile(`^(\d{4,5}(?:-\d{4})?|[A-Z]\d[A-Z] ?\d[A-Z]\d)$`)
	codeAndCity  = regexp.MustCompile(`^(?:[A-Z]{1,2}-)?(\d{4,5})\s+(\pL.*)$`)
)

// ParseAddress parses the country, region, code and locality at the end of an address in one line. Uncertain parts
// stay in Street.
func ParseAddress(text string) Address {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	var a Address
	last := func() string {
		if len(parts) < 2 {
			return ""
		}
		return parts[len(parts)-1]
	}
	pop := func() { parts = parts[:len(parts)-1] }

	t := loadTables()
	if s := last(); s != "" && isCountry(t, s, parts[max(len(parts)-2, 0)]) {
		a.Country = s
		pop()
	}
	if s := last(); postalCode.MatchString(s) {
		a.PostalCode = s
		pop()
	}
	if s := last(); s != "" {
		switch m := stateAndCode.FindStringSubmatch(s); {
		case m != nil:
			a.Region, a.PostalCode = m[1], m[2]
			pop()
		case regionZone(t, a.CountryCode(), s) != nil:
			a.Region = s
			pop()
		}
	}
	switch m := codeAndCity.FindStringSubmatch(parts[len(parts)-1]); {
	case m != nil && a.Region == "":
		a.PostalCode, a.Locality = m[1], m[2]
		pop()
	case a.Country != "" || a.Region != "" || a.PostalCode != "":
		a.Locality = parts[len(parts)-1]
		pop()
	}
	a.Street = strings.Join(parts, ", ")
	return a
}

// isCountry decides for text such as "DE" that is both a country and a region: it is the country only after a
// principal city of that country.
func isCountry(t *tables, text, before string) bool {
	code := t.countries[fold(text)]
	if code == "" || regionZone(t, "", text) == nil {
		return code != ""
	}
	return slices.ContainsFunc(t.byCountry[code], func(z zone) bool { return strings.HasSuffix(fold(before), z.city) })
}

// regionZone returns a region by its code, which must be in upper case, or its name. An empty country means any.
func regionZone(t *tables, country, name string) *region {
	folded := fold(name)
	for i := range t.regions {
		r := &t.regions[i]
		if (country == "" || r.country == country) && (r.code == name || r.name == folded) {
			return r
		}
	}
	return nil
}
