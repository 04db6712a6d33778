package structured

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/publicsuffix"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/identity"
)

// document is a page with its metadata and the positions of its structured data.
type document struct {
	page   Page
	budget *budget.Budget
	// base is the base of relative URLs.
	base *url.URL
	// canonical is the URL that the page names as its own, if it is on the same host.
	canonical *url.URL
	language  string
	// headings are the subjects of the page, prepared for comparison.
	headings    []string
	description string
	image       string
	monthFirst  bool
	notes       collect.Notes
	// site is the name of the site, pageTitle the page's title.
	site, pageTitle string
	// versions are the page's versions in its languages.
	versions []candidate.Version

	// blocks are the scripts with JSON-LD.
	blocks []block
	// appData are scripts with data of the page's own, calendarLinks the links that add an event to a calendar, and times
	// the elements with a time.
	appData              []block
	calendarLinks, times []*html.Node
	// scopes are the outermost elements of Microdata.
	scopes []*html.Node
	// hasRDFa and hasMicroformats mark pages that may have events in these syntaxes.
	hasRDFa, hasMicroformats bool
	// elements are those with an id by that, nil before the first lookup.
	elements map[string]*html.Node
}

// block is a script with JSON-LD; number counts the scripts of the page from 1.
type block struct {
	text   string
	number int
}

// found has the metadata of a page before its base is known.
type found struct {
	base, canonical, title string
	metas                  map[string]string
	headings               []string
	scripts                int
	versions               [][2]string // languages and references
}

const (
	// maxHeadings and maxHeading limit the headings of a page; the latter is in bytes.
	maxHeadings = 100
	maxHeading  = 600
	maxVersions = 40
	// maxPartings limits the places where a title may end before the name of the site.
	maxPartings = 4
	// maxCalendarLinks and maxTimes limit the elements that may be events without any markup.
	maxCalendarLinks = 500
	maxTimes         = 500
)

// newDocument reads the metadata of a page in one pass.
func newDocument(p Page, b *budget.Budget) *document {
	d := &document{
		page:      p,
		budget:    b,
		base:      p.URL,
		canonical: p.URL,
	}
	f := found{metas: map[string]string{}}
	for n := range p.Root.Descendants() {
		if !b.Work(1) {
			break
		}
		if n.Type == html.ElementNode {
			f.element(d, n)
			d.mark(n)
		}
	}
	if u := d.resolve(f.base); u != nil {
		d.base = u
	}
	if u := d.resolve(f.canonical); u != nil && identity.SameSite(u, p.URL) {
		d.canonical = u
	}
	for _, v := range append(f.versions, p.Versions...) {
		if u := d.resolve(v[1]); u != nil && identity.SameSite(u, p.URL) {
			d.versions = append(d.versions, candidate.Version{Language: strings.ToLower(v[0]), URL: u})
		}
	}
	d.site, d.pageTitle = identity.Words(f.metas["og:site_name"]), f.title
	// Only English has the month first, and only in some countries.
	english := d.language == "" || strings.HasPrefix(d.language, "en")
	d.monthFirst = d.language == "en-us" || english && strings.HasPrefix(p.Timezone, "America/")
	for _, text := range append([]string{f.metas["og:title"], f.title}, f.headings...) {
		if text = identity.Words(text); text != "" {
			d.headings = append(d.headings, text)
		}
	}
	d.description = markup.Plain(cut(cmp.Or(f.metas["og:description"], f.metas["description"]), maxName))
	d.image = d.picture(f.metas["og:image"])
	return d
}

// element reads the metadata in an element.
func (f *found) element(d *document, n *html.Node) {
	switch n.DataAtom {
	case atom.Html:
		d.language = cmp.Or(d.language, strings.ToLower(strings.TrimSpace(attr(n, "lang"))))
	case atom.Base:
		f.base = cmp.Or(f.base, attr(n, "href"))
	case atom.Link:
		switch rels := strings.Fields(strings.ToLower(cut(attr(n, "rel"), maxDate))); {
		case f.canonical == "" && slices.Contains(rels, "canonical"):
			f.canonical = attr(n, "href")
		case len(f.versions) < maxVersions && hasAttr(n, "hreflang") && slices.Contains(rels, "alternate"):
			f.versions = append(f.versions, [2]string{attr(n, "hreflang"), attr(n, "href")})
		}
	case atom.Title:
		f.title = cmp.Or(f.title, textOf(n, maxHeading))
	case atom.H1:
		if len(f.headings) < maxHeadings {
			f.headings = append(f.headings, textOf(n, maxHeading))
		}
	case atom.Meta:
		for _, name := range []string{attr(n, "property"), attr(n, "name")} {
			if content := strings.TrimSpace(attr(n, "content")); pageMeta[name] && f.metas[name] == "" {
				f.metas[name] = content
			}
		}
	case atom.Script:
		f.scripts++
		switch kind := strings.ToLower(cut(attr(n, "type"), maxDate)); {
		case n.FirstChild == nil:
		case strings.Contains(kind, "ld+json"):
			d.blocks = append(d.blocks, block{n.FirstChild.Data, f.scripts})
		case kind == "application/json" && strings.Contains(n.FirstChild.Data, `"start`):
			d.appData = append(d.appData, block{n.FirstChild.Data, f.scripts})
		}
	default:
	}
}

// mark records the syntaxes of an element.
func (d *document) mark(n *html.Node) {
	scope, prop := false, false
	for i := range n.Attr {
		switch a := &n.Attr[i]; a.Key {
		case "itemscope":
			scope = true
		case "itemprop":
			prop = strings.TrimSpace(a.Val) != ""
		case "typeof":
			d.hasRDFa = true
		case "href":
			if n.DataAtom == atom.A && len(d.calendarLinks) < maxCalendarLinks && strings.Contains(a.Val, "calendar") {
				d.calendarLinks = append(d.calendarLinks, n)
			}
		case "datetime":
			if n.DataAtom == atom.Time && len(d.times) < maxTimes {
				d.times = append(d.times, n)
			}
		case "class":
			d.hasMicroformats = d.hasMicroformats || strings.Contains(a.Val, "h-event") || strings.Contains(a.Val, "vevent")
		}
	}
	if scope && (!prop || d.budget.Work(30) && scopeWithin(n, nil) == nil) {
		d.scopes = append(d.scopes, n)
	}
}

// pageMeta are the meta elements about the page as a whole.
var pageMeta = map[string]bool{"og:title": true, "og:description": true, "description": true, "og:image": true,
	"og:site_name": true}

// parting matches what separates a title from the name of its site.
var parting = regexp.MustCompile(`\s+[|–—·»:-]\s+`)

// withoutSite returns a title without the name of the site at its end. The name is that of the page's metadata, or
// ends the page's title while a heading has none.
func (d *document) withoutSite(title string) string {
	if len(title) > maxHeading || !d.budget.Work(len(title)) {
		return title
	}
	for _, at := range parting.FindAllStringIndex(title, maxPartings) {
		rest, end := title[:at[0]], identity.Words(title[at[1]:])
		if end == "" || rest == "" {
			continue
		}
		if end == d.site || strings.HasSuffix(identity.Words(d.pageTitle), " "+end) &&
			slices.Contains(d.headings, identity.Words(rest)) {
			return rest
		}
	}
	return title
}

// textOf returns the text of an element, up to a number of bytes.
func textOf(n *html.Node, limit int) string {
	var b strings.Builder
	for t := range n.Descendants() {
		if t.Type != html.TextNode {
			continue
		}
		if b.WriteString(cut(t.Data, limit-b.Len())); b.Len() >= limit {
			break
		}
	}
	return b.String()
}

// fileEndings are top-level domains that are mostly file extensions.
var fileEndings = map[string]bool{"pl": true, "py": true, "md": true, "sh": true, "zip": true, "mov": true, "rs": true,
	"ps": true, "cc": true}

// ampersands replaces those that were escaped twice.
var ampersands = strings.NewReplacer("&amp;", "&", "&#038;", "&", "&#38;", "&")

// resolve returns the absolute URL of a reference in the page; nil if it is not one of http or https.
func (d *document) resolve(ref string) *url.URL {
	if strings.Contains(ref, "&") {
		ref = ampersands.Replace(ref)
	}
	ref = strings.TrimSpace(ref)
	if ref == "" || strings.ContainsAny(ref, "<>\n\"") {
		return nil
	}
	if host, _, _ := strings.Cut(ref, "/"); !strings.Contains(ref, "://") && !strings.Contains(host, ":") && isHost(host) {
		ref = "https://" + ref
	}
	u, err := d.base.Parse(ref)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	return u
}

// isHost reports whether a text such as "tickets.example.com/x" is a URL without a scheme. "page.html" is a file.
func isHost(s string) bool {
	s = strings.ToLower(s)
	labels := strings.Split(s, ".")
	if len(labels) < 2 || labels[0] == "" || strings.Contains(s, " ") {
		return false
	}
	suffix, known := publicsuffix.PublicSuffix(s)
	return known && suffix != s && (len(labels) > 2 || !fileEndings[labels[1]])
}

// link returns a displayable URL, "" for other references.
func (d *document) link(ref string) string {
	u := d.resolve(ref)
	if u == nil {
		return ""
	}
	return identity.Clean(u)
}

// placeholders are the files in place of images that load later.
var placeholders = map[string]bool{"blank": true, "spacer": true, "placeholder": true, "pixel": true,
	"transparent": true, "loading": true}

// picture returns the URL of an image, "" for other references.
func (d *document) picture(ref string) string {
	u := d.resolve(ref)
	if u == nil || strings.HasSuffix(u.Path, "/") && u.RawQuery == "" || isPlaceholder(u.Path) {
		return ""
	}
	return identity.Clean(u)
}

// isPlaceholder reports whether the path of a picture is that of a placeholder.
func isPlaceholder(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	file := strings.ToLower(path[strings.LastIndex(path, "/")+1:])
	name, _, _ := strings.Cut(file, ".")
	return placeholders[name]
}
