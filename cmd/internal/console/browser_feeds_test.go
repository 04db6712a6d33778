//go:build nightly

package console_test

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/google/uuid"

	"carillon/projections/feeds"
)

// fill types into the field with an id.
func (b *tab) fill(t *testing.T, field, text string) {
	t.Helper()
	ask[bool](t, b, `(() => { const f = document.getElementById("`+field+`"); f.value = ""; f.focus(); return true })()`)
	call(t, b, input.InsertText, input.InsertTextParams{Text: text})
}

// TestAttachSourceInBrowser attaches a source on the feed's page with the keyboard, and sees the progress of the
// backfill.
func TestAttachSourceInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	s := newScene(t)
	b := newTab(t, s.serve(t), s.signIn(t, s.key).cookie)
	b.scripts(t, false)
	path := "/console/feeds/" + s.names["feed"]
	b.open(t, path)
	b.fill(t, "where", "not an address")
	b.pressButton(t, "Look at it")
	b.until(t, "the refusal is there", `document.body.innerText.includes("must be absolute")`)
	b.shows(t, "refused", "Attach a source to")
	if typed := ask[string](t, b, `document.getElementById("where").value`); typed != "not an address" {
		t.Errorf("the form has lost what was typed: %q", typed)
	}
	b.accessible(t, "refused")
	b.fits(t, "refused", 360)
	b.forget() // the browser reports status 400 on its console

	spare := s.names["source"]
	b.fill(t, "where", "https://example.org/theatre/"+s.org.String())
	b.pressButton(t, "Attach")
	b.until(t, "the source is attached", `document.body.innerText.includes("The source is attached.")`)
	b.shows(t, "attached", "example.org/theatre", "waits for its next visit, 0 items so far", "Reload")

	// A walk is in progress.
	if _, err := s.Pool.Exec(t.Context(), `INSERT INTO carillon.source_walks (source_id, host, next_at, number, walking,
		began_at, interval_seconds, failures, asked, linked)
		VALUES ($1, 'example.org', now(), 1, true, now(), 3600, 0, 3, 12)`, uuid.MustParse(spare)); err != nil {
		t.Fatal(err)
	}
	b.pressButton(t, "Reload")
	b.until(t, "the bar is there",
		`document.querySelector("progress")?.value === 3 && document.querySelector("progress").max === 12`)
	b.shows(t, "while it runs", "3 of 12 pages so far, 0 items")
	b.accessible(t, "while it runs")
	b.fits(t, "while it runs", 360)
	b.quiet(t, "while it runs")

	all, err := s.Queries.Associations(t.Context(), s.org, uuid.MustParse(s.names["feed"]))
	if err != nil || len(all) != 2 {
		t.Errorf("%d sources are attached, as %s tells: %v", len(all), feeds.ReadModel.Name, err)
	}
}
