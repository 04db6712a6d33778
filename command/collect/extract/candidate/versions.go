package candidate

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"carillon/command/collect/identity"
)

// Version is a version of a page in a language, which is "x-default" for visitors without one.
type Version struct {
	Language string
	URL      *url.URL
}

// frontPage matches the path of a front page in a language.
var frontPage = regexp.MustCompile(`^/?(?:[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?)?/?$`)

// Distinct returns the versions of a page without front pages, which some sites name on all pages.
func Distinct(all []Version) []Version {
	return slices.DeleteFunc(slices.Clone(all), func(v Version) bool {
		return v.URL.RawQuery == "" && frontPage.MatchString(v.URL.Path)
	})
}

// Preferred returns the version that counts: the one in the language of the source's address, else the default one,
// else the first. There must be one.
func Preferred(all []Version, source *url.URL) *url.URL {
	if source != nil {
		host, _, _ := strings.Cut(source.Hostname(), ".")
		words := append(strings.Split(strings.ToLower(source.Path), "/"), host)
		for _, values := range source.Query() {
			words = append(words, values...)
		}
		for _, v := range all {
			if slices.Contains(words, v.Language) {
				return v.URL
			}
		}
	}
	for _, v := range all {
		if v.Language == "x-default" {
			return v.URL
		}
	}
	return all[0].URL
}

// versions sets the evidence of the page's versions for an event of its own, and whether the page is a translation.
func (o *observer) versions(c *Candidate) {
	all := slices.DeleteFunc(Distinct(o.Versions), func(v Version) bool { return o.namesMany(v.URL) })
	if len(all) < 2 || !c.own {
		return
	}
	for _, v := range all {
		if key := identity.URLKey(v.URL); !slices.Contains(c.versions, key) {
			c.versions = append(c.versions, key)
		}
	}
	preferred := identity.URLKey(Preferred(all, o.Home))
	c.translated = !o.isPage(preferred)
}
