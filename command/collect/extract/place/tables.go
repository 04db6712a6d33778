package place

import (
	_ "embed" // for the tables below
	"math"
	"strconv"
	"strings"
	"sync"

	"carillon/command/collect/extract/timing"
)

//go:embed zones.txt
var zonesText string

//go:embed regions.txt
var regionsText string

// zone is a timezone with its principal place.
type zone struct {
	country  string
	name     string
	city     string // folded, "los angeles"
	lat, lng float64
}

type region struct{ country, code, name, zone string }

// tables has the embedded files, read on first use.
type tables struct {
	zones     []zone
	byCountry map[string][]zone
	countries map[string]string // folded name or code → code
	regions   []region
}

var loadTables = sync.OnceValue(func() *tables {
	t := &tables{byCountry: map[string][]zone{}, countries: countryCodes()}
	for line := range timing.TableRows(zonesText) {
		fields := strings.Fields(line)
		lat, lng := iso6709(fields[1])
		city := fields[2][strings.LastIndex(fields[2], "/")+1:]
		z := zone{fields[0], fields[2], fold(strings.ReplaceAll(city, "_", " ")), lat, lng}
		t.zones = append(t.zones, z)
		t.byCountry[z.country] = append(t.byCountry[z.country], z)
	}
	for line := range timing.TableRows(regionsText) {
		fields := strings.Split(line, "|")
		t.regions = append(t.regions, region{fields[0], fields[1], fold(fields[2]), fields[3]})
	}
	return t
})

// iso6709 parses ±DDMM±DDDMM or ±DDMMSS±DDDMMSS as degrees.
func iso6709(s string) (lat, lng float64) {
	split := strings.LastIndexAny(s, "+-")
	return degrees(s[:split], 2), degrees(s[split:], 3)
}

func degrees(s string, width int) float64 {
	part := func(from, to int) float64 {
		if to > len(s) {
			return 0
		}
		n, err := strconv.Atoi(s[from:to])
		if err != nil {
			return 0
		}
		return float64(n)
	}
	d := part(1, 1+width) + part(1+width, 3+width)/60 + part(3+width, 5+width)/3600
	if s[0] == '-' {
		return -d
	}
	return d
}

// kilometres returns the great-circle distance.
func kilometres(lat1, lng1, lat2, lng2 float64) float64 {
	const earth, rad = 6371, math.Pi / 180
	a := math.Pow(math.Sin((lat2-lat1)*rad/2), 2) +
		math.Cos(lat1*rad)*math.Cos(lat2*rad)*math.Pow(math.Sin((lng2-lng1)*rad/2), 2)
	return 2 * earth * math.Asin(math.Sqrt(min(a, 1)))
}

// fold normalizes names: case, the dots of abbreviations and the shape of apostrophes.
func fold(s string) string {
	return strings.ToLower(strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(s, ".", ""), "’", "'")))
}
