//go:build nightly

package console_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"carillon/aggregates/disclosure"
	"carillon/eventstore"
)

// TestAnswers_reloadSendsNothingInBrowser: going back to the answer of a form, or reloading it, neither sends the
// form again nor asks to: it shows the page with the form, without the answer.
func TestAnswers_reloadSendsNothingInBrowser(t *testing.T) {
	t.Parallel()
	w := open(t)
	var requests atomic.Int64
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(hook.Close)
	id := w.destination(t, "Ticket shop", hook.URL)
	found, err := w.Queries.Destination(t.Context(), w.org, id.String(), w.now())
	if err != nil {
		t.Fatal(err)
	}
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
		if after != before+1 {
			t.Errorf("%s: it was done %d times, want once", c.page, after-before)
		}
		b.pressButton(t, "Back")
		b.until(t, c.page+": the destination's page", there)
		ask[bool](t, b, "history.back(); true")
		b.until(t, c.page+": back", `!(`+there+`)`)
		for _, how := range []string{"back", "loaded anew"} {
			b.shows(t, c.page+" "+how, c.question)
			if ask[bool](t, b, `document.body.innerText.includes("`+c.answer+
				`") || document.body.innerText.includes("whsec_")`) {
				t.Errorf("%s %s: the answer is there still", c.page, how)
			}
			if n := c.done(); n != after {
				t.Errorf("%s %s: it was done again", c.page, how)
			}
			if err := chromedp.Do(b, chromedp.Reload()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
