package structured

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/publicsuffix"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/identity"
	"carillon/command/collect/markup"
)

// document is a page with what it says about itself, and where it has structured data.
type document struct {
	page   Page
	budget *budget.Budget
	// base is what relative URLs are relative to.
	base *url.URL
	// canonical is the page's own idea of its URL, if on the same host.
	canonical *url.URL
	language  string
	// headings are what the page says it is about, fit for comparing.
	headings    []string
	description string
	image       string
	monthFirst  bool
	notes       collect.Notes

	// blocks are the scripts that hold JSON-LD, with the number of the script.
	blocks []block
	// scopes are the outermost elements of Microdata.
	scopes []*html.Node
	// hasRDFa and hasMicroformats say that the page may have some that tells of events.
	hasRDFa, hasMicroformats bool
	// byID are the elements that have an id, nil until one is asked for.
	byID map[string]*html.Node
}

// block is a script that holds JSON-LD, number counts the scripts of the page from 1.
type block struct {
	text   string
	number int
}

// found is what a walk over the page comes by before it is known what it is relative to.
type found struct {
	base, canonical, title string
	metas                  map[string]string
	scripts                int
}

const (
	// maxHeadings and maxHeading bound what the page is about; the latter is in bytes.
	maxHeadings = 100
	maxHeading  = 600
)

// newDocument looks through a page once.
func newDocument(p Page, b *budget.Budget) *document {
	d := &document{
		page:      p,
		budget:    b,
		base:      p.URL,
		canonical: p.URL,
	}
	f := found{metas: map[string]string{}}
	var headings []string
	for n := range p.Root.Descendants() {
		if !b.Work(1) {
			break
		}
		if n.Type == html.ElementNode {
			f.element(d, n, &headings)
			d.mark(n)
		}
	}
	if u := d.resolve(f.base); u != nil {
		d.base = u
	}
	if u := d.resolve(f.canonical); u != nil && identity.SameSite(u, p.URL) {
		d.canonical = u
	}
	// Only English is written month first, and only by some who write it.
	english := d.language == "" || strings.HasPrefix(d.language, "en")
	d.monthFirst = d.language == "en-us" || english && strings.HasPrefix(p.Timezone, "America/")
	for _, text := range append([]string{f.metas["og:title"], f.title}, headings...) {
		if text = identity.Words(text); text != "" {
			d.headings = append(d.headings, text)
		}
	}
	d.description = markup.Plain(cut(cmp.Or(f.metas["og:description"], f.metas["description"]), maxName))
	d.image = d.picture(f.metas["og:image"])
	return d
}

// element takes up what an element says about the page.
func (f *found) element(d *document, n *html.Node, headings *[]string) {
	switch n.DataAtom {
	case atom.Html:
		d.language = cmp.Or(d.language, strings.ToLower(strings.TrimSpace(attr(n, "lang"))))
	case atom.Base:
		f.base = cmp.Or(f.base, attr(n, "href"))
	case atom.Link:
		if f.canonical == "" && slices.Contains(strings.Fields(cut(attr(n, "rel"), maxDate)), "canonical") {
			f.canonical = attr(n, "href")
		}
	case atom.Title:
		f.title = cmp.Or(f.title, textOf(n, maxHeading))
	case atom.H1:
		if len(*headings) < maxHeadings {
			*headings = append(*headings, textOf(n, maxHeading))
		}
	case atom.Meta:
		for _, name := range []string{attr(n, "property"), attr(n, "name")} {
			if content := strings.TrimSpace(attr(n, "content")); told[name] && f.metas[name] == "" {
				f.metas[name] = content
			}
		}
	case atom.Script:
		f.scripts++
		if kind := attr(n, "type"); strings.Contains(strings.ToLower(cut(kind, maxDate)), "ld+json") && n.FirstChild != nil {
			d.blocks = append(d.blocks, block{n.FirstChild.Data, f.scripts})
		}
	default:
	}
}

// mark notes which syntaxes an element belongs to.
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
		case "class":
			d.hasMicroformats = d.hasMicroformats || strings.Contains(a.Val, "h-event") || strings.Contains(a.Val, "vevent")
		}
	}
	if scope && !prop {
		d.scopes = append(d.scopes, n)
	}
}

// told are the meta elements that say something about the page as a whole.
var told = map[string]bool{"og:title": true, "og:description": true, "description": true, "og:image": true}

// textOf is the text inside of an element, up to a number of bytes.
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

// fileEndings are endings of domains that are endings of files far more often.
var fileEndings = map[string]bool{"pl": true, "py": true, "md": true, "sh": true, "zip": true, "mov": true, "rs": true,
	"ps": true, "cc": true}

// ampersands are those that were escaped once more than needed.
var ampersands = strings.NewReplacer("&amp;", "&", "&#038;", "&", "&#38;", "&")

// resolve gives the absolute URL of a reference in the page; nil if it is none of http or https.
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

// isHost: "tickets.example.com/x" is a URL that lacks its scheme, and "page.html" a file.
func isHost(s string) bool {
	s = strings.ToLower(s)
	labels := strings.Split(s, ".")
	if len(labels) < 2 || labels[0] == "" || strings.Contains(s, " ") {
		return false
	}
	suffix, known := publicsuffix.PublicSuffix(s)
	return known && suffix != s && (len(labels) > 2 || !fileEndings[labels[1]])
}

// link is a URL as it is shown, "" for none.
func (d *document) link(ref string) string {
	u := d.resolve(ref)
	if u == nil {
		return ""
	}
	return identity.Clean(u)
}

// placeholders are the files that stand in for images that load later.
var placeholders = map[string]bool{"blank": true, "spacer": true, "placeholder": true, "pixel": true,
	"transparent": true, "loading": true}

// picture is the URL of an image, "" for what can't be one.
func (d *document) picture(ref string) string {
	u := d.resolve(ref)
	if u == nil || strings.HasSuffix(u.Path, "/") && u.RawQuery == "" {
		return ""
	}
	if isPlaceholder(u.Path) {
		return ""
	}
	return identity.Clean(u)
}

// isPlaceholder says that a picture stands in for one that loads later, by its path.
func isPlaceholder(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	file := strings.ToLower(path[strings.LastIndex(path, "/")+1:])
	name, _, _ := strings.Cut(file, ".")
	return placeholders[name]
}
