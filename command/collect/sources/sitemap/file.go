package sitemap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/linkfile"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/sources/site"
)

const (
	// fileWork is the budget of reading a file, in steps: 50,000 addresses, each with a dozen translations.
	fileWork = 30_000_000
	// fileMemory is nominal: the addresses have separate limits.
	fileMemory = 1 << 20
)

// file reads a file, unless it is unchanged.
func (c *Collector) file(ctx context.Context, address string, page collect.Known) (collect.Page, error) {
	known := remembered(page)
	var f *file
	got, err := c.files.Do(ctx, fetch.Ask{
		URL:   address,
		Known: known.Validators,
		Stay:  !page.Root,
		Limit: linkfile.MaxBytes,
		Read: func(answer *fetch.Page, body io.Reader) error {
			f = newFile(answer, filesOf(page))
			return collect.Survive(answer.URL, func() error {
				return f.read(budget.Of(ctx, fileWork, fileMemory), answer, body)
			})
		},
	})
	if err != nil {
		return collect.Page{}, err //nolint:wrapcheck // list's caller does
	}
	next := state{
		Reading:    reading,
		Role:       page.Role,
		Validators: got.Validators,
		Digest:     known.Digest,
	}
	read := collect.Page{Requests: 1}
	if f != nil {
		next.Digest = f.digest
	}
	if read.State, err = next.encode(); err != nil {
		return collect.Page{}, err
	}
	if read.Unchanged = f == nil || f.digest != "" && f.digest == known.Digest; read.Unchanged {
		return read, nil
	}
	f.links(&read)
	if len(read.Links) == 0 && page.Root {
		read.Notes.Add(collect.NoteNoEvents, "the sitemap lists no page of its site")
	}
	return read, nil
}

// file is a file that is being read.
type file struct {
	pages, files *links.Set
	home         *url.URL // the sitemap's own address
	mostFiles    int
	listed       int
	cut          string
	digest       string // "" if it was not read completely
}

func newFile(answer *fetch.Page, mostFiles int) *file {
	return &file{
		pages:     links.New(answer.URL, nil, maxAddresses),
		files:     links.New(answer.URL, nil, mostFiles),
		home:      answer.URL,
		mostFiles: mostFiles,
	}
}

func (f *file) read(b *budget.Budget, answer *fetch.Page, body io.Reader) error {
	sum := sha256.New()
	result, err := linkfile.Read(b, io.TeeReader(body, sum), answer.Header.Get("Content-Type"), f.take)
	if err != nil {
		return err //nolint:wrapcheck // list's caller does
	}
	if f.cut == "" {
		f.cut = result.Cut
	}
	if f.cut == "" {
		f.digest = hex.EncodeToString(sum.Sum(nil))
	}
	return nil
}

// take adds an entry, and reports whether to continue.
func (f *file) take(e linkfile.Entry) bool {
	if f.listed++; f.listed > maxAddresses {
		f.cut = fmt.Sprintf("it lists more than %d addresses", maxAddresses)
		return false
	}
	switch e.Kind {
	case linkfile.File:
		f.files.Add(e.Address, collect.Link{List: true, Modified: e.Modified})
	case linkfile.Page, linkfile.Post:
		if u := f.pages.Resolve(f.preferred(e)); u != nil && !links.IsFile(u) {
			f.pages.AddURL(u, collect.Link{Role: site.RolePage, Modified: e.Modified, Lasting: e.Kind == linkfile.Post})
		}
	}
	return true
}

// preferred returns the address of the version of a page that counts for the source: all have the same events.
func (f *file) preferred(e linkfile.Entry) string {
	var all []candidate.Version
	for _, v := range e.Versions {
		if u, err := url.Parse(v[1]); err == nil && u.Host != "" {
			all = append(all, candidate.Version{Language: strings.ToLower(v[0]), URL: u})
		}
	}
	if all = candidate.Distinct(all); len(all) < 2 {
		return e.Address
	}
	return candidate.Preferred(all, f.home).String()
}

// links adds the entries of the file as links.
func (f *file) links(read *collect.Page) {
	handOn(f.files, f.mostFiles, read)
	read.Links = links.Unique(append(read.Links, f.pages.Links...))
	if f.cut == "" && f.pages.Cut() > 0 {
		f.cut = "its addresses are too long"
	}
	if f.cut != "" {
		read.Notes.Add(collect.NoteTruncated, "a sitemap was not read whole: %s", f.cut)
	}
	f.pages.Note(&read.Notes)
}
