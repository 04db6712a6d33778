//go:build nightly

package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// pointAt moves the pointer to a point of the page.
func (b *tab) pointAt(t *testing.T, x, y float64) {
	t.Helper()
	call(t, b, input.DispatchMouseEvent, input.DispatchMouseEventParams{
		Type: input.DispatchMouseEventTypeMouseMoved,
		X:    x,
		Y:    y,
	})
}

// TestLiveDeliveriesInBrowser: the list shows new deliveries without a reload. While the pointer is on it, it does not
// change, and a button says that there is news.
func TestLiveDeliveriesInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	shop := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	operators := serveAt(t, w.admin)
	for name, b := range map[string]*tab{
		"/console/deliveries": newTab(t, w.serve(t), w.signIn(t, w.key).cookie),
		"/console/destinations/" + shop.String() + "/deliveries":           newTab(t, w.serve(t), w.signIn(t, w.key).cookie),
		"/console/organizations/" + w.org.String() + "/deliveries?status=": newTab(t, operators, w.operator(t).cookie),
	} {
		b.sized(t, 1280)
		b.pointAt(t, 5, 5)
		b.open(t, name)
		ask[bool](t, b, `document.documentElement.dataset.here = "yes"; true`)
		event := w.publish(t, "concert")
		row := `document.querySelector('[data-id="` + dispatch.DeliveryID(event, shop).String() + `"]')`
		b.until(t, "it is on top", row+` !== null && document.querySelector("tbody").firstElementChild === `+row)
		w.attempted(t, event, shop, 204, "")
		b.until(t, "its status changes", row+`.innerText.includes("succeeded")`)

		at := ask[[]float64](t, b,
			`(() => { const r = document.querySelector("tbody").getBoundingClientRect(); return [r.x + 40, r.y + 10]; })()`)
		b.pointAt(t, at[0], at[1])
		b.until(t, "the pointer is there", `document.querySelector("[data-list]").matches(":hover")`)
		before := ask[int](t, b, `document.querySelectorAll("[data-id]").length`)
		id := dispatch.DeliveryID(w.publish(t, "while-reading"), shop)
		fresh := `document.querySelector('[data-id="` + id.String() + `"]')`
		b.until(t, "the button is there", `!document.querySelector("[data-news]").hidden`)
		if now := ask[int](t, b, `document.querySelectorAll("[data-id]").length`); now != before {
			t.Errorf("%d rows became %d under the pointer", before, now)
		}
		b.accessible(t, "with news")
		b.pressButton(t, "There is news")
		b.until(t, "it is shown, and the focus is on it", fresh+`?.contains(document.activeElement)`)
		b.until(t, "the button is gone", `document.querySelector("[data-news]").hidden`)
		assert.True(t, ask[bool](t, b, `document.documentElement.dataset.here === "yes"`), "the page was loaded again")
		b.quiet(t, name)
	}
}

// front is a load balancer that leads to one process or another.
type front struct {
	to     atomic.Pointer[http.Handler]
	server *httptest.Server
}

func (f *front) leadTo(process http.Handler) { f.to.Store(&process) }

// gone answers as if the process was gone.
var gone = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })

// front returns a load balancer that leads to this process.
func (w *world) front(t *testing.T) *front {
	t.Helper()
	var f front
	f.leadTo(w.handler)
	f.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		(*f.to.Load()).ServeHTTP(rw, r)
	}))
	t.Cleanup(f.server.Close)
	return &f
}

// TestLostConnectionInBrowser: a page shows that the connection is lost, goes on when it is back, and shows that its
// session has ended.
func TestLostConnectionInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	f := w.front(t)
	signedIn := w.signIn(t, w.key)
	b := newTab(t, f.server.URL, signedIn.cookie)
	b.sized(t, 1280)
	b.pointAt(t, 5, 5)
	b.open(t, "/console/deliveries")
	connection := func(state string) string {
		return `[...document.querySelectorAll("[data-connection]")].filter((e) => !e.hidden).map((e) => e
			.dataset.connection).join() === "` + state + `"`
	}
	f.leadTo(gone)
	b.until(t, "it says that it is cut off", connection("cut"))
	b.accessible(t, "cut off")
	w.publish(t, "unheard")
	f.leadTo(w.handler)
	b.until(t, "it goes on by itself", connection("")+` && document.querySelector("tbody").innerText.includes("unheard")`)
	b.forget()

	signedIn.post(t, "/console/sign-out").leadsTo(t, "/console/sign-in")
	b.until(t, "it says that its session has ended", connection("refused"))
	b.accessible(t, "after its session")
	b.pressButton(t, "Reload")
	b.until(t, "it asks for a sign-in", `location.pathname === "/console/sign-in" && location.search.includes("next=")`)
}

// TestFormAfterSessionEndInBrowser: typed values survive the end of the session, and are sent after the next sign-in.
func TestFormAfterSessionEndInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	first := w.signIn(t, w.key)
	b := newTab(t, w.serve(t), first.cookie)
	b.open(t, "/console/destinations/new")
	address := receiver(t, 204, "")
	ask[bool](t, b,
		`document.querySelector("[name=name]").value = 'Town "app" & <others>';
			document.querySelector("[name=url]").value = "`+address+`";
		document.querySelector("[name=headers]").value = "X-Town: 1\\nX-Other: two"; true`)
	first.post(t, "/console/sign-out").leadsTo(t, "/console/sign-in")
	b.leave(t, "Create")
	b.shows(t, "after the session", "You were signed out", "Your input is kept")
	b.accessible(t, "after the session")
	b.leave(t, "Send it again")
	b.shows(t, "still signed out", "You were signed out")
	b.signedIn(t, w.signIn(t, w.key).cookie) // as in another tab
	b.leave(t, "Send it again")
	b.shows(t, "after another sign-in", "The destination was created.", `Town "app" & <others>`)
	found, _, err := w.Queries.FindDestinations(t.Context(), w.org, query.DestinationFilter{Text: `TOWN "APP"`, Limit: 10})
	assert.True(t, err == nil && len(found) == 1 && len(found[0].Headers.Data) != 0, "%+v, %v", found, err)
}

// TestFrameInBrowser: a page of another site shows the console in a frame: its login link signs in without a click and
// opens a page, whose height the parent learns.
func TestFrameInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	var framed http.Handler
	address := serveAt(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { framed.ServeHTTP(rw, r) }))
	link, _, err := console.NewLink(t.Context(), w.sessions, adminapi.ConsoleVisitor{Organization: w.org}, w.now())
	must.OK(t, err)
	parent := strings.Replace(serveAt(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(rw, `<!DOCTYPE html><iframe src="%s&next=/console/destinations" width="900"></iframe>
			<script>heights = []; addEventListener("message", (e) => e.origin === %q && heights.push(e.data))</script>`,
			address+link, address)
	})), "127.0.0.1", "localhost", 1)
	deps, api := w.dependencies(t)
	deps.Origins = []string{parent}
	shown := make(chan bool, 100)
	pages := must.Get(console.New(deps))(t).Beside(api)
	framed = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(rw, r)
		if _, err := r.Cookie("carillon_console"); err == nil && r.URL.Path == "/console/destinations" {
			shown <- true
		}
	})
	b := newTab(t, parent, "")
	b.open(t, "/")
	b.until(t, "the parent learns the height", `heights.some((m) => m.type === "carillon:height" && m.height > 200)`)
	select {
	case <-shown:
	case <-time.After(apitest.Patience):
		t.Error("the page to open was not asked for with a session")
	}
}

// TestWorkOfOtherProcessInBrowser shows the progress of another process's work.
func TestWorkOfOtherProcessInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	works := adapters.ConsoleWorks{Pool: w.Pool}
	work, path := w.begun(t, id, func(of *console.Work) { of.Done, of.Total = 0, 300 })
	beat := work.Beat
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.open(t, path)
	b.shows(t, "at first", "0 of 300")
	work.Done = 200
	must.OK(t, works.Advance(t.Context(), work, beat.Add(time.Second)))
	b.until(t, "it goes on",
		`document.querySelector("[data-progress]").innerText.includes("200 of 300") &&
			document.querySelector("progress").value === 200`)
	work.Done, work.State, work.Beat = 300, "done", beat.Add(time.Second)
	must.OK(t, works.Advance(t.Context(), work, beat.Add(2*time.Second)))
	b.until(t, "it comes to its end", `document.querySelector("main").innerText.includes("All of them are on their way")`)
	b.quiet(t, "while it is looked at")
}

// TestLiveDeliveryInBrowser: a delivery's page shows each attempt as it is made, without a reload.
func TestLiveDeliveryInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	event := w.publish(t, "concert")
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.open(t, "/console/deliveries/"+dispatch.DeliveryID(event, id).String())
	b.shows(t, "before", "waiting", "None yet.")
	ask[bool](t, b, `document.documentElement.dataset.here = "yes"; true`)
	w.attempted(t, event, id, 503, `{"error":"out of order"}`)
	b.until(t, "the attempt is shown",
		`document.querySelector('[data-part="attempts"]').innerText.includes("503") &&
			document.querySelector('[data-part="attempts"]').innerText.includes("out of order")`)
	b.until(t, "and its way goes on", `document.querySelector('[data-part="way"]').innerText.includes("attempt 1")`)
	assert.True(t, ask[bool](t, b, `document.documentElement.dataset.here === "yes"`), "the page was loaded again")
	b.accessible(t, "after an attempt")
	b.quiet(t, "after an attempt")
}
