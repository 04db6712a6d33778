package place

import (
	_ "embed" // for the list below
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"carillon/command/collect/extract/timing"
)

// countriesText has common names that the tables of x/text lack.
//
//go:embed countries.txt
var countriesText string

// readings are the languages of country names, besides their own.
var readings = []language.Tag{
	language.English, language.German, language.French, language.Spanish, language.Italian, language.Portuguese,
	language.Dutch, language.Danish, language.Swedish, language.Norwegian, language.Finnish, language.Polish,
	language.Czech,
}

// countryCodes returns the code of each country by its folded names and codes.
func countryCodes() map[string]string {
	codes := map[string]string{}
	add := func(name, code string) {
		if name = fold(name); name != "" && codes[name] == "" {
			codes[name] = code
			codes[strings.ReplaceAll(name, " & ", " and ")] = code
		}
	}
	regions := countries()
	for _, r := range regions { // codes have precedence over names
		add(r.String(), r.String())
		add(r.ISO3(), r.String())
	}
	for _, r := range regions {
		for _, tag := range readings {
			add(display.Regions(tag).Name(r), r.String())
		}
		own, _ := language.Make("und-" + r.String()).Base()
		if names := display.Regions(language.Make(own.String())); names != nil {
			add(names.Name(r), r.String())
		}
	}
	for line := range timing.TableRows(countriesText) {
		fields := strings.Split(line, "|")
		for _, name := range fields[1:] {
			add(name, fields[0])
		}
	}
	return codes
}

// countries returns those of ISO 3166.
func countries() []language.Region {
	var found []language.Region
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			if r, err := language.ParseRegion(string(a) + string(b)); err == nil && r.IsCountry() && r.Canonicalize() == r &&
				r.String() == string(a)+string(b) {
				found = append(found, r)
			}
		}
	}
	return found
}
