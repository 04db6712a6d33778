package linkfile

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"carillon/command/collect"
)

const (
	// maxToken limits a tag, a text or a comment, in bytes, which the decoder holds.
	maxToken = 256 << 10
	// maxValue limits the stored part of a text.
	maxValue = 4 * collect.MaxAddress
	// maxVersions limits the versions of a page in other languages.
	maxVersions = 40
	// tokenWork is the cost of a token, in steps.
	tokenWork = 10
)

// bounded passes bytes to the decoder, but no more than a token may have.
type bounded struct {
	r     *bufio.Reader
	n     int // in this token
	total int
}

func (b *bounded) ReadByte() (byte, error) {
	if b.n++; b.n > maxToken {
		return 0, &tooLong{fmt.Sprintf("a part of it is longer than %d KB", maxToken>>10)}
	}
	c, err := b.r.ReadByte()
	if err == nil {
		b.total++
	}
	return c, err //nolint:wrapcheck // the decoder wants io.EOF as it is
}

// Read implements io.Reader, which the decoder doesn't use.
func (b *bounded) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// entries are the elements with an address, by name.
var entries = map[string]Kind{"url": Page, "sitemap": File, "item": Post, "entry": Post}

// eventFields are the elements of vocabularies of events: of RSS 1.0's event module, xCal, and calendar plugins.
var eventFields = map[string]bool{"startdate": true, "enddate": true, "starthour": true, "endhour": true,
	"dtstart": true, "dtend": true, "location": true}

// roots are the root elements of files.
var roots = map[string]bool{"urlset": true, "sitemapindex": true, "rss": true, "rdf": true, "feed": true}

// elements reads a file of elements. The nesting of entries is ignored.
func (f *file) elements() error {
	in := &bounded{r: f.text}
	d := xml.NewDecoder(in)
	d.Strict, d.Entity = false, xml.HTMLEntity
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // it is decoded already
	if err := f.skipDeclaration(); err != nil {
		return err
	}
	s := &scan{file: f}
	for {
		in.n = 0
		before := in.total
		token, err := d.RawToken()
		f.bytes = in.total
		if err != nil {
			return s.end(err)
		}
		if !f.budget.Work(tokenWork + (in.total-before)/8) {
			return f.budget.Err() //nolint:wrapcheck // Read looks at the budget
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := s.start(t); err != nil {
				return err
			}
		case xml.CharData:
			s.text(t)
		case xml.EndElement:
			s.close(t.Name)
		}
		if f.ended {
			return nil
		}
	}
}

// skipDeclaration skips "<?xml … ?>", which may have versions and charsets that the decoder refuses.
func (f *file) skipDeclaration() error {
	head, _ := f.text.Peek(glimpse)
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return nil
	}
	end := bytes.Index(head, []byte("?>"))
	if end < 0 {
		return fmt.Errorf("%w: its declaration has no end", collect.ErrUnsupportedContent)
	}
	_, err := f.text.Discard(end + 2)
	return err //nolint:wrapcheck // Read says what it is
}

// scan is the position in the elements.
type scan struct {
	*file

	root, rootSpace string
	closed          bool // the root is
	// kind is that of the open entry, 0 for none; depth counts the open elements in it.
	kind     Kind
	space    string
	depth    int
	field    string
	value    strings.Builder
	entry    Entry
	fallback string // address of a post without a better one
}

func (s *scan) start(t xml.StartElement) error {
	name := strings.ToLower(t.Name.Local)
	kind := entries[name]
	switch {
	case s.root == "" && roots[name]:
		s.root, s.rootSpace = name, t.Name.Space
		return nil
	case s.root == "" && kind == 0:
		return fmt.Errorf("%w: it is neither a sitemap nor a feed but <%.40s>", collect.ErrUnsupportedContent, name)
	case s.root == "":
		s.root, s.rootSpace, s.closed = name, t.Name.Space, true // a fragment, which has no end
	}
	if kind != 0 && t.Name.Space == s.rootSpace || kind == Post && s.root == "rdf" {
		s.finish()
		s.kind, s.space, s.depth, s.field = kind, t.Name.Space, 0, ""
		if kind == Post {
			s.fallback = attribute(t, "about")
		}
		return nil
	}
	if s.kind == 0 {
		return nil
	}
	s.depth++
	s.field = ""
	if s.depth == 1 {
		s.begin(name, t)
	}
	return nil
}

// begin reads an element directly within an entry. The <loc> of a picture or a video has another prefix.
func (s *scan) begin(name string, t xml.StartElement) {
	own := t.Name.Space == s.space
	switch {
	case s.kind == Page && name == "link" && attribute(t, "hreflang") != "" && len(s.entry.Versions) < maxVersions:
		s.entry.Versions = append(s.entry.Versions, [2]string{attribute(t, "hreflang"), attribute(t, "href")})
	case s.kind != Post:
		if own && (name == "loc" || name == "lastmod") {
			s.field = name
		}
	case name == "link" && attribute(t, "href") != "":
		if rel := strings.ToLower(attribute(t, "rel")); (rel == "" || rel == "alternate") && s.entry.Address == "" {
			s.entry.Address = attribute(t, "href")
		}
	case name == "link" && own, name == "origlink":
		s.field = name
	case name == "title" && own, !own && eventFields[name]:
		s.field = name
	case name == "guid" && own && !strings.EqualFold(attribute(t, "isPermaLink"), "false"):
		s.field = name
	}
	s.value.Reset()
}

func (s *scan) text(data []byte) {
	if s.field != "" && s.depth == 1 {
		s.value.Write(data[:min(len(data), maxValue-s.value.Len())])
	}
}

func (s *scan) close(name xml.Name) {
	local := strings.ToLower(name.Local)
	switch {
	case local == s.root && name.Space == s.rootSpace && s.root != "":
		s.finish()
		s.closed = true
	case s.kind == 0:
	case entries[local] == s.kind && name.Space == s.space:
		s.finish()
	default:
		if s.depth == 1 {
			s.take()
		}
		s.depth = max(s.depth-1, 0)
		s.field = ""
	}
}

// take stores the value of the field that ends.
func (s *scan) take() {
	value := strings.TrimSpace(s.value.String())
	switch s.field {
	case "loc":
		if s.entry.Address == "" {
			s.entry.Address = value
		}
	case "lastmod":
		s.entry.Modified = date(value)
	case "link":
		if s.entry.Address == "" {
			s.entry.Address = value
		}
	case "title":
		s.entry.Title = value
	case "startdate", "dtstart":
		s.entry.Start = value
	case "enddate", "dtend":
		s.entry.End = value
	case "starthour":
		s.entry.startHour = value
	case "endhour":
		s.entry.endHour = value
	case "location":
		s.entry.Place = value
	case "origlink": // original of an address that a service that counts readers has replaced
		s.entry.Address = value
	case "guid":
		if lower := strings.ToLower(value); strings.HasPrefix(lower, "http:") || strings.HasPrefix(lower, "https:") {
			s.fallback = value
		}
	}
}

// finish passes the open entry on.
func (s *scan) finish() {
	if s.kind == 0 {
		return
	}
	entry, fallback := s.entry, s.fallback
	entry.Kind = s.kind
	s.kind, s.entry, s.fallback, s.field, s.depth = 0, Entry{}, "", "", 0
	s.value.Reset()
	if entry.Address == "" {
		entry.Address = fallback
	}
	entry.Start = strings.TrimSpace(entry.Start + " " + entry.startHour)
	entry.End = strings.TrimSpace(entry.End + " " + entry.endHour)
	s.give(entry)
}

// end translates the end of the tokens.
func (s *scan) end(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case s.root == "":
		return fmt.Errorf("%w: it holds no elements", collect.ErrUnsupportedContent)
	case !s.closed:
		s.cut = "it breaks off"
	}
	s.finish()
	return nil
}

func attribute(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if strings.EqualFold(a.Name.Local, name) {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// maxDate limits the length of a date. firstYear is the earliest plausible year: before, there was no web.
const (
	maxDate   = 64
	firstYear = 1990
)

var year = regexp.MustCompile(`(?:^|\D)(\d{4})(?:\D|$)`)

// date returns the text of a date, "" for other texts, because a page whose date never changes would seldom be read.
func date(words string) string {
	found := year.FindStringSubmatch(words)
	if found == nil || len(words) > maxDate {
		return ""
	}
	if y, err := strconv.Atoi(found[1]); err != nil || y < firstYear {
		return ""
	}
	return strings.Clone(words)
}
