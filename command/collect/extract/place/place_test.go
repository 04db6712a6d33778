package place_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"carillon/aggregates/happening"
	"carillon/command/collect/extract/place"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestAddressInOneLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address place.Address
		want    string
	}{
		{place.Address{}, ""},
		{place.Address{
			Street:     "79 Washington St.",
			Locality:   "Providence",
			Region:     "RI",
			PostalCode: "02903",
			Country:    "US",
		}, "79 Washington St., Providence, RI 02903, US"},
		{place.Address{
			Street:     "7 S. Broadway",
			Locality:   "Denver",
			Region:     "CO",
			PostalCode: "80209",
		}, "7 S. Broadway, Denver, CO 80209"},
		{place.Address{
			Street:     "Untere Schöntalstrasse 19",
			Locality:   "Winterthur",
			PostalCode: "8401",
			Country:    "Switzerland",
		}, "Untere Schöntalstrasse 19, 8401 Winterthur, Switzerland"},
		{place.Address{
			Street:     "Via Roma 1",
			Locality:   "Milano",
			Region:     "Milano",
			PostalCode: "20121",
			Country:    "IT",
		}, "Via Roma 1, 20121 Milano, IT"},
		{place.Address{
			Street:     "1 Main St, Springfield, IL 62701",
			Locality:   "Springfield",
			Region:     "IL",
			PostalCode: "62701",
		}, "1 Main St, Springfield, IL 62701"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.address.String(), tt.want, "address")
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	tests := map[string]place.Address{
		"Memphis, TN, US": {Locality: "Memphis", Region: "TN", Country: "US"},
		"Lynn, MA, 01901": {Locality: "Lynn", Region: "MA", PostalCode: "01901"},
		"London, UK":      {Locality: "London", Country: "UK"},
		"Berlin, DE":      {Locality: "Berlin", Country: "DE"},
		"Wilmington, DE":  {Locality: "Wilmington", Region: "DE"},
		"79 Washington St., Providence, RI 02903": {
			Street:     "79 Washington St.",
			Locality:   "Providence",
			Region:     "RI",
			PostalCode: "02903",
		},
		"Hauptstr. 1, 10115 Berlin": {Street: "Hauptstr. 1", PostalCode: "10115", Locality: "Berlin"},
		"Hauptstr. 1, D-10115 Berlin, Deutschland": {
			Street:     "Hauptstr. 1",
			PostalCode: "10115",
			Locality:   "Berlin",
			Country:    "Deutschland",
		},
		"100 King St W, Toronto, ON M5X 1A9, Canada": {
			Street:     "100 King St W",
			Locality:   "Toronto",
			Region:     "ON",
			PostalCode: "M5X 1A9",
			Country:    "Canada",
		},
		"Town Hall":          {Street: "Town Hall"},
		"US":                 {Street: "US"},
		"":                   {},
		"The Owl, 5th floor": {Street: "The Owl, 5th floor"},
	}
	for text, want := range tests {
		assert.Alike(t, place.ParseAddress(text), want, "%q", text)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	at := func(lat, lng float64) *happening.Coordinates { return &happening.Coordinates{Lat: lat, Lng: lng} }
	tests := []struct {
		name    string
		address place.Address
		geo     *happening.Coordinates
		home    string
		first   string
		sure    bool
	}{
		{"nothing", place.Address{}, nil, "", "", false},
		{"a country of one zone", place.Address{Country: "CZ"}, nil, "", "Europe/Prague", true},
		{"its name in its own language", place.Address{Country: "Österreich"}, nil, "", "Europe/Vienna", true},
		{"an old abbreviation", place.Address{Country: "U.K."}, nil, "", "Europe/London", true},
		{"a country that is nearly of one zone", place.Address{Country: "ES", Locality: "Madrid"}, nil, "",
			"Europe/Madrid", true},
		{"its distant part", place.Address{Country: "Spain", Region: "Canarias"}, nil, "", "Atlantic/Canary", true},
		{"a state", place.Address{Country: "US", Region: "CO"}, nil, "", "America/Denver", true},
		{"a state in full", place.Address{Country: "United States", Region: "Illinois"}, nil, "", "America/Chicago", true},
		{"a state without its country", place.Address{Region: "CO", Locality: "Denver"}, nil, "", "America/Denver", true},
		{"the same letters at home in Italy", place.Address{Region: "CO", Locality: "Como"}, nil, "Europe/Rome", "", false},
		{"the same letters at home in America", place.Address{Region: "CO"}, nil, "America/New_York", "America/Denver", true},
		{"two states of the same letters", place.Address{Country: "AU", Region: "WA"}, nil, "", "Australia/Perth", true},
		{"a wide country alone", place.Address{Country: "US"}, nil, "", "America/New_York", false},
		{"a wide country whose east comes first", place.Address{Country: "Brazil"}, nil, "", "America/Sao_Paulo", false},
		{"a principal city", place.Address{Country: "US", Locality: "Los Angeles"}, nil, "", "America/Los_Angeles", true},
		{"a principal city without its country", place.Address{Locality: "Berlin"}, nil, "", "Europe/Berlin", true},
		{"a namesake of a principal city", place.Address{Locality: "Paris", Region: "TX"}, nil, "", "America/Chicago", true},
		{"coordinates in a wide country", place.Address{Country: "US"}, at(34.05, -118.24), "", "America/Los_Angeles", true},
		{"coordinates alone", place.Address{}, at(48.2, 16.37), "", "Europe/Vienna", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			zones, sure := place.Zones(tt.address, tt.geo, tt.home)
			first := ""
			if len(zones) > 0 {
				first = zones[0]
			}
			assert.True(t, first == tt.first && sure == tt.sure, "got %q (of %d), sure %v", first, len(zones), sure)
		})
	}
}

// Every zone in the tables can be loaded.
func TestTablesHaveValidZones(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for lat := -85.0; lat <= 85; lat += 10 {
		for lng := -175.0; lng <= 175; lng += 10 {
			zones, _ := place.Zones(place.Address{}, &happening.Coordinates{Lat: lat, Lng: lng}, "")
			for _, name := range zones {
				names[name] = true
			}
		}
	}
	for _, region := range []string{"NY", "MI", "IN", "TX", "ID", "AZ", "AK", "HI"} {
		zones, _ := place.Zones(place.Address{Country: "US", Region: region}, nil, "")
		names[zones[0]] = true
	}
	for _, country := range []string{"US", "CA", "AU", "BR", "RU", "MX", "ID", "KZ", "MN", "CD", "GL", "FM", "KI", "PF",
		"AQ", "UM"} {
		zones, _ := place.Zones(place.Address{Country: country}, nil, "")
		names[zones[0]] = true
	}
	for name := range names {
		must.Get(time.LoadLocation(name))(t)
	}
}

func TestGeoLocations(t *testing.T) {
	t.Parallel()
	geo := &happening.Coordinates{Lat: 1, Lng: 2}
	type seen struct {
		Description string
		Relation    happening.RelationType
		Score       int
	}
	tests := []struct {
		venue   string
		address place.Address
		geo     *happening.Coordinates
		want    []seen
	}{
		{"", place.Address{}, nil, nil},
		{"", place.Address{}, geo, nil},
		{"Hall", place.Address{Locality: "Town"}, geo, []seen{{"Hall", happening.AtLocation, 100}}},
		{"", place.Address{Street: "Street 1", Locality: "Town"}, nil, []seen{{"Street 1", happening.AtLocation, 90}}},
		{"Hall", place.Address{}, nil, []seen{{"Hall", happening.AtLocation, 70}}},
		{"", place.Address{Locality: "Town", Country: "DE"}, nil, []seen{{"Town, DE", happening.RelevanceRegion, 60}}},
	}
	for _, tt := range tests {
		var got []seen
		for _, g := range place.GeoLocations(tt.venue, tt.address, tt.geo) {
			got = append(got, seen{g.Description, g.RelationType, g.Score})
		}
		assert.Alike(t, got, tt.want, "%q %+v", tt.venue, tt.address)
	}
}

func TestCoordinates(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{{"", ""}, {"0", "0.0"}, {"91", "0"}, {"1", "-181"}, {"NaN", "1"}, {"x", "1"},
		{"1", ""}} {
		if got := place.Coordinates(bad[0], bad[1]); got != nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
	if got := place.Coordinates(" 40,66 ", "-73.95"); got == nil ||
		*got != (happening.Coordinates{Lat: 40.66, Lng: -73.95}) {
		t.Errorf("got %v", got)
	}
}

func TestPlatform(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		"https://us02web.zoom.us/j/1":     "Zoom",
		"https://www.youtube.com/watch?v": "YouTube",
		"https://meet.google.com/abc":     "Google Meet",
		"https://www.stream.example/x":    "stream.example",
		"https://notzoom.us/":             "notzoom.us",
		"%":                               "",
	} {
		assert.Equal(t, place.Platform(link), want, "%s", link)
	}
}

// Coordinates determine the zone, close to a border as well.
func TestZonesOfPoints(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		city     string
		lat, lng float64
		want     string
	}{
		{"Munich", 48.137, 11.575, "Europe/Berlin"}, {"Milan", 45.464, 9.19, "Europe/Rome"},
		{"Mumbai", 19.076, 72.878, "Asia/Kolkata"},
		{"Hamburg", 53.551, 9.994, "Europe/Berlin"}, {"Barcelona", 41.385, 2.173, "Europe/Madrid"},
		{"Lyon", 45.764, 4.836, "Europe/Paris"},
		{"Manchester", 53.481, -2.242, "Europe/London"}, {"Geneva", 46.204, 6.143, "Europe/Zurich"},
		{"Basel", 47.558, 7.588, "Europe/Zurich"},
		{"Kraków", 50.065, 19.945, "Europe/Warsaw"}, {"Saint Petersburg", 59.934, 30.335, "Europe/Moscow"},
		{"Boston", 42.36, -71.058, "America/New_York"},
		{"Houston", 29.76, -95.37, "America/Chicago"}, {"Seattle", 47.606, -122.332, "America/Los_Angeles"},
		{"El Paso", 31.76, -106.48, "America/Denver"},
		{"Montréal", 45.502, -73.567, "America/Toronto"}, {"Guadalajara", 20.66, -103.35, "America/Mexico_City"},
		{"Sydney", -33.87, 151.2, "Australia/Sydney"},
		{"Shenzhen", 22.543, 114.058, "Asia/Shanghai"}, {"Cape Town", -33.925, 18.424, "Africa/Johannesburg"},
	} {
		zones, sure := place.Zones(place.Address{}, &happening.Coordinates{Lat: tt.lat, Lng: tt.lng}, "Europe/Oslo")
		assert.True(t, len(zones) == 1 && zones[0] == tt.want && sure,
			"%s is in %v, sure %v; want %s", tt.city, zones, sure, tt.want)
	}
	// In a country of several zones the point decides, unless it lies elsewhere.
	if zones, sure := place.Zones(place.Address{Country: "US"}, &happening.Coordinates{Lat: 39.77, Lng: -86.16},
		""); !sure || zones[0] != "America/Indiana/Indianapolis" {
		t.Errorf("Indianapolis is in %v, %v", zones, sure)
	}
	// The zone at sea is unknown.
	if zones, sure := place.Zones(place.Address{}, &happening.Coordinates{Lat: 30, Lng: -40}, ""); sure ||
		len(zones) != 3 {
		t.Errorf("the ocean is in %v, %v", zones, sure)
	}
}

func TestCountryCode(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"DE": "DE", "DEU": "DE", "Germany": "DE", "Deutschland": "DE", "Allemagne": "DE", "Tyskland": "DE", "Niemcy": "DE",
		"UK": "GB", "U.K.": "GB", "Scotland": "GB", "USA": "US", "U.S.A.": "US", "United States of America": "US",
		"Estados Unidos": "US", "Česko": "CZ", "Czech Republic": "CZ", "Côte d'Ivoire": "CI", "日本": "JP",
		"Magyarország": "HU", "Ελλάδα": "GR", "Türkiye": "TR", "Turkey": "TR", "Bosnia and Herzegovina": "BA",
		"Bosnia & Herzegovina": "BA", "The Netherlands": "NL", "Danmark": "DK", "Atlantis": "", "": "", "EU": "",
		"Europe": "",
	} {
		assert.Equal(t, (place.Address{Country: name}).CountryCode(), want, "%q", name)
	}
}
