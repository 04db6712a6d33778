package place_test

import (
	"testing"

	"carillon/command/collect/extract/place"
)

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
		if got := (place.Address{Country: name}).CountryCode(); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
