// Package links selects the addresses on a page that belong to its site, and normalizes them. Addresses of other
// sites, private ones, files and sessions of one visitor are not fetched.
package links

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/idna"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/identity"
)

// maxBytes limits all addresses of a set together.
const maxBytes = 32 << 20

// Set collects the pages that one page links, each once in any spelling.
type Set struct {
	// Links are in the order in which they were added.
	Links []collect.Link

	page, base *url.URL
	limit      int
	bytes      int
	seen       map[string]bool
	// elsewhere counts addresses of other sites, unfit those outside of the web, cut those beyond the limit.
	elsewhere, unfit, cut int
}

// New returns a set of at most limit pages of the site of a page. References are relative to base; nil means the page.
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

// Resolve returns the address of a reference, or nil if it is not of a page of the site, which is counted.
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
	if u = plain(u); s.page.Scheme == "https" && u.Scheme == "http" { // an old link that redirects there
		u.Scheme, u.Host = "https", strings.TrimSuffix(u.Host, ":80")
	}
	if len(u.String()) > collect.MaxAddress {
		s.unfit++
		return nil
	}
	return u
}

// Add adds the page of a reference with the properties of a link, and reports whether the set has it now.
func (s *Set) Add(ref string, link collect.Link) bool {
	u := s.Resolve(ref)
	return u != nil && s.AddURL(u, link)
}

// AddURL adds a page that Resolve has returned.
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

// Leave excludes a page.
func (s *Set) Leave(u *url.URL) { s.seen[identity.Canonical(u)] = true }

// Cut returns the number of pages that were left out because the set was full.
func (s *Set) Cut() int { return s.cut }

// Unique removes repeated addresses.
func Unique(all []collect.Link) []collect.Link {
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(link collect.Link) bool {
		again := seen[link.Address]
		seen[link.Address] = true
		return again
	})
}

// Note adds a note about addresses that were left out.
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
	// sessionPath matches sessions of visitors in paths: ";jsessionid=…" and ASP.NET's "/(S(…))".
	sessionPath = regexp.MustCompile(`(?i);(?:jsessionid|phpsessid|sid)=[^/?#]*|/\((?:[asf]\([a-z0-9_-]+\))+\)(/|$)`)
)

// plain returns an address for a request: in ASCII, without fragment, tracking parameters and sessions.
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
	return clean.ResolveReference(clean) // removes dots that may be left in the path
}

// files are the extensions of other files than pages.
var files = strings.Fields(`7z aac apk avi avif bmp bz2 css csv dmg doc docx eot eps epub exe flac flv gif gpx ` +
	`gz heic ico
	ics iso jpeg jpg js json key kml kmz m3u m4a m4v mid mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv opus otf pdf pkg png
	pps ppt pptx psd rar rss rtf svg swf tar tgz tif tiff ttf txt vcf vcs wav webm webmanifest webp wma wmv woff woff2 xls
	xlsx xml xz zip`)

// IsFile reports whether an address has the extension of a picture, a document or the like.
func IsFile(u *url.URL) bool {
	return slices.Contains(files, strings.TrimPrefix(strings.ToLower(path.Ext(u.Path)), "."))
}

// maxLabel limits how much of each part of a link's label is read, in bytes.
const maxLabel = 200

// Label returns the words of a link on one line: its title, its text, and those of its pictures.
func Label(n *html.Node) string {
	var label strings.Builder
	add := func(text string) {
		label.WriteString(text[:min(len(text), maxLabel)] + " ")
	}
	names := func(n *html.Node) {
		for _, a := range n.Attr {
			if a.Key == "title" || a.Key == "aria-label" || a.Key == "alt" {
				add(a.Val)
			}
		}
	}
	names(n)
	for c := range n.Descendants() {
		if label.Len() > 2*maxLabel {
			break
		}
		switch {
		case c.Type == html.TextNode:
			add(c.Data)
		case c.DataAtom == atom.Img:
			names(c)
		}
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(label.String(), " ")), " ")
}

// IsAbout reports whether an element is around the text of a page rather than in it.
func IsAbout(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Footer, atom.Aside:
		return true
	case atom.Header:
		return n.Parent != nil && n.Parent.DataAtom == atom.Body
	default:
	}
	for _, a := range n.Attr {
		if a.Key == "role" && (a.Val == "navigation" || a.Val == "banner" || a.Val == "contentinfo") {
			return true
		}
	}
	return false
}
