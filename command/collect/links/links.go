// Package links says which addresses that a page names are those of pages of its site, and writes each in one way.
// Pages are written by strangers: what leads to another site, to a private address, into a file or into a session of
// one visitor is not asked for.
package links

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"carillon/command/collect"
	"carillon/command/collect/fetch"
	"carillon/command/collect/identity"
)

// maxBytes is how long all addresses of a set may be together.
const maxBytes = 32 << 20

// Set collects the pages that one page links. Each is in it once, however it is spelled.
type Set struct {
	// Links are in the order in which they were added.
	Links []collect.Link

	page, base *url.URL
	limit      int
	bytes      int
	seen       map[string]bool
	// elsewhere counts addresses of other sites, unfit those that are none of the web, cut those beyond the limit.
	elsewhere, unfit, cut int
}

// New begins a set of at most limit pages of the site of a page. References are relative to base; nil: to the page.
// The page itself is not added.
func New(page, base *url.URL, limit int) *Set {
	if base == nil {
		base = page
	}
	return &Set{
		page:  page,
		base:  base,
		limit: limit,
		seen:  map[string]bool{identity.Canonical(page): true},
	}
}

// Resolve gives the address that a reference means, or nil if it is not of a page of the site, which is counted.
func (s *Set) Resolve(ref string) *url.URL {
	ref = strings.TrimSpace(ref)
	if len(ref) > collect.MaxAddress {
		s.unfit++
		return nil
	}
	u, err := s.base.Parse(ref)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(ref, "<>\"\n\x00") {
		s.unfit++
		return nil
	}
	if u = fetch.Web(u); u.Scheme != "http" && u.Scheme != "https" {
		s.unfit++
		return nil
	}
	if !identity.SameSite(u, s.page) {
		s.elsewhere++
		return nil
	}
	if u = plain(u); s.page.Scheme == "https" && u.Scheme == "http" { // an old link, which leads there by a redirect
		u.Scheme, u.Host = "https", strings.TrimSuffix(u.Host, ":80")
	}
	if len(u.String()) > collect.MaxAddress {
		s.unfit++
		return nil
	}
	return u
}

// Add adds the page that a reference leads to, in the manner of a link, and says whether it is in the set now.
func (s *Set) Add(ref string, link collect.Link) bool {
	u := s.Resolve(ref)
	return u != nil && s.AddURL(u, link)
}

// AddURL adds a page that Resolve gave.
func (s *Set) AddURL(u *url.URL, link collect.Link) bool {
	key := identity.Canonical(u)
	if s.seen[key] {
		return false
	}
	link.Address = u.String()
	if s.bytes += len(link.Address) + len(key); len(s.Links) >= s.limit || s.bytes > maxBytes {
		s.cut++
		return false
	}
	s.seen[key] = true
	s.Links = append(s.Links, link)
	return true
}

// Leave makes sure that a page is not added.
func (s *Set) Leave(u *url.URL) { s.seen[identity.Canonical(u)] = true }

// Cut counts the pages that were not added because the set was full.
func (s *Set) Cut() int { return s.cut }

// Unique leaves out what comes a second time, in whichever manner.
func Unique(all []collect.Link) []collect.Link {
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(link collect.Link) bool {
		again := seen[link.Address]
		seen[link.Address] = true
		return again
	})
}

// Note says what was left out of what the page names.
func (s *Set) Note(notes *collect.Notes) {
	if s.elsewhere > 0 {
		notes.Add(collect.NoteLeftOut, "%d addresses of other sites were left out", s.elsewhere)
	}
	if s.unfit > 0 {
		notes.Add(collect.NoteLeftOut, "%d addresses were left out that are none of the web, hold a password or are too long",
			s.unfit)
	}
}

var (
	// sessionPath is how servers write the session of a visitor into a path: ";jsessionid=…" and ASP.NET's "/(S(…))".
	sessionPath = regexp.MustCompile(`(?i);(?:jsessionid|phpsessid|sid)=[^/?#]*|/\((?:[asf]\([a-z0-9_-]+\))+\)(/|$)`)
)

// plain gives an address as it is asked for: in ASCII, without fragment, tracking parameters and sessions.
func plain(u *url.URL) *url.URL {
	p := *u
	p.Fragment, p.RawFragment = "", ""
	p.Scheme, p.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if ascii, err := idna.ToASCII(p.Host); err == nil {
		p.Host = ascii
	}
	for sessionPath.MatchString(p.Path) {
		p.Path, p.RawPath = sessionPath.ReplaceAllString(p.Path, "$1"), ""
	}
	if p.Path == "" {
		p.Path = "/"
	}
	p.RawQuery = strings.ReplaceAll(strings.TrimSpace(p.RawQuery), " ", "%20")
	clean, err := url.Parse(identity.Clean(&p))
	if err != nil {
		return &p
	}
	return clean.ResolveReference(clean) // which takes out the dots that may be left of a path
}

// files are the endings of what is no page.
var files = strings.Fields(`7z aac apk avi avif bmp bz2 css csv dmg doc docx eot eps epub exe flac flv gif gpx ` +
	`gz heic ico
	ics iso jpeg jpg js json key kml kmz m3u m4a m4v mid mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv opus otf pdf pkg png
	pps ppt pptx psd rar rss rtf svg swf tar tgz tif tiff ttf txt vcf vcs wav webm webmanifest webp wma wmv woff woff2 xls
	xlsx xml xz zip`)

// IsFile says that an address is that of a picture, a document or the like, by its ending.
func IsFile(u *url.URL) bool {
	return slices.Contains(files, strings.TrimPrefix(strings.ToLower(path.Ext(u.Path)), "."))
}
