package place

import (
	"cmp"
	"slices"
	"strings"

	"carillon/aggregates/happening"
)

// wide are the countries with zones of many people, with the zone of most, which is the best guess.
var wide = map[string]string{
	"US": "America/New_York", "CA": "America/Toronto", "AU": "Australia/Sydney", "BR": "America/Sao_Paulo",
	"RU": "Europe/Moscow", "MX": "America/Mexico_City", "ID": "Asia/Jakarta", "KZ": "Asia/Almaty",
	"MN": "Asia/Ulaanbaatar", "CD": "Africa/Kinshasa", "GL": "America/Nuuk", "FM": "Pacific/Pohnpei",
	"KI": "Pacific/Tarawa", "PF": "Pacific/Tahiti", "AQ": "Antarctica/McMurdo", "UM": "Pacific/Wake",
}

// nearest is the number of candidate zones around coordinates in an unknown country.
const nearest = 3

// Zones returns the possible IANA zones of the place, the likeliest first, and whether the first is certain. home is
// the zone of the publisher, or "": it decides about a region code without a country.
func Zones(a Address, geo *happening.Coordinates, home string) (zones []string, sure bool) {
	t := loadTables()
	country := a.CountryCode()
	if r := regionZone(t, country, a.Region); a.Region != "" && r != nil && (country != "" || impliesCountry(t, r, home)) {
		return []string{r.zone}, true
	}
	candidates := t.byCountry[country]
	if country != "" && wide[country] == "" && len(candidates) > 0 {
		return zoneNames(candidates), true
	}
	known := country != ""
	if !known {
		candidates = t.zones
	}
	if city := fold(a.Locality); city != "" && (known || a.Region == "") {
		for _, z := range candidates {
			if z.city == city {
				return []string{z.name}, true
			}
		}
	}
	if geo != nil {
		name := pointZone(geo)
		if name != "" && (!known || slices.ContainsFunc(candidates, func(z zone) bool { return z.name == name })) {
			return []string{name}, true
		}
		return zoneNames(nearestTo(geo, candidates)), known
	}
	if !known {
		return nil, false
	}
	names := slices.DeleteFunc(zoneNames(candidates), func(name string) bool { return name == wide[country] })
	return append([]string{wide[country]}, names...), false
}

func nearestTo(geo *happening.Coordinates, zones []zone) []zone {
	type remote struct {
		zone
		distance float64
	}
	all := make([]remote, len(zones))
	for i, z := range zones {
		all[i] = remote{z, kilometres(geo.Lat, geo.Lng, z.lat, z.lng)}
	}
	slices.SortStableFunc(all, func(x, y remote) int { return cmp.Compare(x.distance, y.distance) })
	found := make([]zone, min(nearest, len(all)))
	for i := range found {
		found[i] = all[i].zone
	}
	return found
}

// impliesCountry decides whether "CO" without a country is Colorado: not with a home in Italy, where it is Como.
func impliesCountry(t *tables, r *region, home string) bool {
	if home == "" {
		return r.country == "US" || r.name != fold(r.code)
	}
	return slices.ContainsFunc(t.byCountry[r.country], func(z zone) bool { return z.name == home }) ||
		r.country == "US" && strings.HasPrefix(home, "America/")
}

func zoneNames(zones []zone) []string {
	names := make([]string, len(zones))
	for i, z := range zones {
		names[i] = z.name
	}
	return names
}
