//go:build nightly

package console_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"carillon/aggregates/disclosure"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestOutdatedFormsInBrowser: a form that was open during another change is shown again, with the typed and the
// current values, all of it accessible.
func TestOutdatedFormsInBrowser(t *testing.T) {
	needsBrowser(t)
	s := newScene(t)
	other := s.signIn(t, s.key)
	b := newTab(t, s.serve(t), other.cookie)
	works := must.Get(s.Queries.Destination(t.Context(), s.org, s.names["works"], time.Now()))(t)
	path := s.at(t, "/console/destinations/{works}/edit")
	b.sized(t, 1280)
	b.open(t, path)
	b.fill(t, "name", "Mine")
	other.post(t, path, "seen", other.get(t, path).seenBy(t), "name", "Tickets and more", "url", works.URL, "headers",
		"X-Tenant: town-hall\nX-Room: 7", "debounce", "60").leadsTo(t, strings.TrimSuffix(path, "/edit")+"?done=saved")
	b.pressButton(t, "Save")
	b.until(t, "it is shown", `document.body.innerText.includes("changed since you opened the form")`)
	b.shows(t, "outdated", "It is now: Tickets and more", "X-Room: 7", "It is now: 60", "by key:")
	assert.Equal(t, ask[string](t, b, `document.querySelector("#name").value`), "Mine", "what was typed has become")
	b.accessible(t, "outdated")
	b.byKeys(t, "outdated")
	b.pictures(t, "outdated")
	b.fits(t, "outdated, small", 360)
	b.dark(t, true)
	b.accessible(t, "outdated, in the dark")
}

// TestAnswers_reloadSendsNothingInBrowser: going back to the answer of a form, or reloading it, neither sends the
// form again nor asks to: it shows the page with the form, without the answer.
func TestAnswers_reloadSendsNothingInBrowser(t *testing.T) {
	w := open(t)
	var requests atomic.Int64
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(hook.Close)
	id := w.destination(t, "Ticket shop", hook.URL)
	found := must.Get(w.Queries.Destination(t.Context(), w.org, id.String(), w.now()))(t)
	disclosures := func() (n int64) { // from the store: the answer does not wait for its read model
		for m, err := range w.Store.Subscribe(t.Context(), eventstore.Start,
			eventstore.Categories(disclosure.Aggregate.Category)) {
			switch {
			case err != nil:
				t.Fatal(err)
			case m.CaughtUp:
				return n
			case m.Event != nil && bytes.Contains(m.Event.Data, []byte(id.String())): // other tests disclose meanwhile
				n++
			}
		}
		return n
	}
	there := `location.pathname.endsWith("/` + id.String() + `")`
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	for _, c := range []struct {
		page, button, question, answer string
		done                           func() int64
	}{
		{"/test", "Send the test event", "Test Ticket shop?", "It took the event: 204", requests.Load},
		{"/validate", "Try it", "Can Ticket shop be reached?", "It answered 204", requests.Load},
		{"/secrets/" + found.Secrets[0].ID.String() + "/reveal", "Show it", "Show a secret of", "Give it to the receiver",
			disclosures},
		{"/rotate", "Rotate", "Rotate the secret of", "There is a new secret", disclosures},
	} {
		path := "/console/destinations/" + id.String() + c.page
		b.open(t, path)
		before := c.done()
		b.pressButton(t, c.button)
		b.until(t, c.page+": the answer", `document.body.innerText.includes("`+c.answer+`")`)
		after := c.done()
		assert.True(t, after == before+1, "%s: it was done %d times, want once", c.page, after-before)
		b.pressButton(t, "Back")
		b.until(t, c.page+": the destination's page", there)
		ask[bool](t, b, "history.back(); true")
		b.until(t, c.page+": back", `!(`+there+`)`)
		for _, how := range []string{"back", "loaded anew"} {
			b.shows(t, c.page+" "+how, c.question)
			assert.True(t,
				!ask[bool](t, b, `document.body.innerText.includes("`+c.answer+`") || document.body.innerText.includes("whsec_")`),
				"%s %s: the answer is there still", c.page, how)
			assert.Equal(t, c.done(), after, "%s %s: it was done again", c.page, how)
			must.OK(t, chromedp.Do(b, chromedp.Reload()))
		}
	}
}

// fill types into the field with an id or a name, and opens what folds it.
func (b *tab) fill(t *testing.T, field, text string) {
	t.Helper()
	ask[bool](t, b, `(() => {
		const f = document.querySelector("#`+field+`, [name=`+field+`]");
		f.closest("details")?.setAttribute("open", "");
		f.value = "";
		f.focus();
		return true;
	})()`)
	call(t, b, input.InsertText, input.InsertTextParams{Text: text})
}

// TestAttachSourceInBrowser attaches a source with the keyboard, and sees the progress of the
// backfill.
func TestAttachSourceInBrowser(t *testing.T) {
	needsBrowser(t)
	s := newScene(t)
	b := newTab(t, s.serve(t), s.signIn(t, s.key).cookie)
	b.scripts(t, false)
	b.open(t, "/console/feeds/"+s.names["feed"]+"/sources/new")
	b.fill(t, "where", "https://example.org/theatre/"+s.org.String())
	b.pressButton(t, "Attach")
	b.until(t, "the source is attached", `document.body.innerText.includes("The source is attached.")`)
	b.shows(t, "attached", "example.org/theatre", "waits for its next visit, 0 items so far", "Reload")

	// A walk is in progress.
	must.Get(s.Pool.Exec(t.Context(), `INSERT INTO carillon.source_walks (source_id, host, next_at, number, walking,
		began_at, interval_seconds, failures, asked, linked)
		VALUES ($1, 'example.org', now(), 1, true, now(), 3600, 0, 3, 12)`, uuid.MustParse(s.names["source"])))(t)
	b.pressButton(t, "Reload")
	b.until(t, "the bar is there",
		`document.querySelector("progress")?.value === 3 && document.querySelector("progress").max === 12`)
	b.shows(t, "while it runs", "3 of 12 pages so far, 0 items")
	b.accessible(t, "while it runs")
	b.fits(t, "while it runs", 360)
	b.quiet(t, "while it runs")
}
