//go:build nightly

package console_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/console"
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

// TestLiveDeliveriesInBrowser: new deliveries appear on top without a reload, and are only counted while the pointer
// is on the list.
func TestLiveDeliveriesInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.sized(t, 1280)
	b.pointAt(t, 5, 5)
	b.open(t, "/console/destinations/"+id.String()+"/deliveries")
	b.until(t, "the page is connected", `document.querySelector("[data-live]").hasAttribute("data-connected")`)

	// Before the source follows the store nothing is sent; then the page reloads its list.
	w.publish(t, "concert")
	b.until(t, "a delivery comes by itself", `document.querySelectorAll("[data-id]").length > 0`)
	event := w.publish(t, "the-last")
	row := `document.querySelector('[data-id="` + dispatch.DeliveryID(event, id).String() + `"]')`
	b.until(t, "it is on top", `document.querySelector("[data-rows]").firstElementChild === `+row)
	w.attempted(t, event, id, 204, "")
	b.until(t, "its status changes where it is",
		row+`.innerText.includes("succeeded") && document.querySelector("[data-rows]").firstElementChild === `+row)

	// With the pointer on it, the list standingOf still and shows the number of new deliveries.
	at := ask[[]float64](t, b,
		`(() => { const r = document.querySelector("[data-live]").getBoundingClientRect(); return [r.x + 40, r.y + 20]; })()`)
	b.pointAt(t, at[0], at[1])
	b.until(t, "the pointer is there", `document.querySelector("[data-live]").matches(":hover")`)
	before := ask[int](t, b, `document.querySelectorAll("[data-id]").length`)
	w.publish(t, "while-reading")
	b.until(t, "the number is told",
		`!document.querySelector("[data-news]").hidden &&
			document.querySelector("[data-news]").textContent === "1 new, show them"`)
	if now := ask[int](t, b, `document.querySelectorAll("[data-id]").length`); now != before {
		t.Errorf("%d rows became %d under the eyes of who reads", before, now)
	}
	b.accessible(t, "with news")

	// It continues when the pointer leaves, or when the new deliveries are requested.
	b.pointAt(t, 5, 5)
	b.until(t, "what was held back is shown",
		`document.querySelector("[data-news]").hidden &&
			document.querySelector("[data-rows]").firstElementChild.innerText.includes("while-reading")`)
	if now := ask[int](t, b, `document.querySelectorAll("[data-id]").length`); now != before+1 {
		t.Errorf("%d rows became %d, and one was held back", before, now)
	}
	b.pointAt(t, at[0], at[1])
	b.until(t, "the pointer is there again", `document.querySelector("[data-live]").matches(":hover")`)
	held := w.publish(t, "asked-for")
	b.until(t, "it is held back", `!document.querySelector("[data-news]").hidden`)
	w.attempted(t, held, id, 204, "")
	b.pressButton(t, "1 new, show them")
	fresh := `document.querySelector('[data-id="` + dispatch.DeliveryID(held, id).String() + `"]')`
	b.until(t, "it is shown, and the focus is on it", fresh+
		` === document.querySelector("[data-rows]").firstElementChild && `+fresh+`.contains(document.activeElement)`)
	b.until(t, "with what happened to it while it was held back", fresh+`.innerText.includes("succeeded")`)
	b.quiet(t, "while it is followed")
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
	t.Cleanup(f.server.CloseClientConnections) // live updates stay open
	t.Cleanup(f.server.Close)
	return &f
}

// another starts a process beside this one.
func (w *world) another(t *testing.T) *world {
	t.Helper()
	other := *w
	other.handler = other.organizationsConsole(t)
	runs(t, other.console)
	return &other
}

// read moves the pointer to the first row of the list.
func (b *tab) read(t *testing.T) {
	t.Helper()
	at := ask[[]float64](t, b,
		`(() => { const r = document.querySelector("[data-rows]").getBoundingClientRect(); return [r.x + 40, r.y + 10]; })()`)
	b.pointAt(t, at[0], at[1])
	b.until(t, "the pointer is there", `document.querySelector("[data-live]").matches(":hover")`)
}

// someMissed reports whether the page shows that more has happened.
const someMissed = `!document.querySelector("[data-news]").hidden &&
	document.querySelector("[data-news]").textContent === "More has happened than is shown here: show it"`

// TestLateReloadInBrowser: a list that is about to reload when the pointer enters it standingOf still, and shows that
// there is more.
func TestLateReloadInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	w.publish(t, "the-first")
	f := w.front(t)
	b := newTab(t, f.server.URL, w.signIn(t, w.key).cookie)
	b.sized(t, 1280)
	b.pointAt(t, 5, 5)

	// Live updates start with this page, which is asked to reload and can't.
	list, refused := "/console/destinations/"+id.String()+"/deliveries", make(chan struct{}, 100)
	var shown atomic.Bool
	f.leadTo(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == list && shown.Swap(true) {
			refused <- struct{}{}
			gone(rw, r)
		}
		w.handler.ServeHTTP(rw, r)
	}))
	b.open(t, list)
	<-refused
	f.leadTo(gone)
	f.server.CloseClientConnections()
	w.publish(t, "unheard")
	b.read(t)
	f.leadTo(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/console/live" {
			gone(rw, r)
		}
		w.handler.ServeHTTP(rw, r)
	}))
	b.until(t, "it says that there is more", someMissed)
	if rows := ask[int](t, b, `document.querySelectorAll("[data-id]").length`); rows != 1 {
		t.Errorf("1 row became %d under the eyes of who reads", rows)
	}
	b.forget()
}

// TestMissedUpdatesInBrowser: a page shows that updates were missed while its list is being read, that the connection
// is lost, and that its session has ended.
func TestMissedUpdatesInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	f := w.front(t)
	signedIn := w.signIn(t, w.key)
	b := newTab(t, f.server.URL, signedIn.cookie)
	b.sized(t, 1280)
	b.pointAt(t, 5, 5)
	b.open(t, "/console/destinations/"+id.String()+"/deliveries")
	w.publish(t, "the-first")
	b.until(t, "it follows",
		`document.querySelectorAll("[data-id]").length === 1 &&
			document.querySelector("[data-live]").hasAttribute("data-connected")`)
	told := func(state string) string {
		return `[...document.querySelectorAll("[data-connection]")].filter((e) => !e.hidden).map((e) => e
			.dataset.connection).join() === "` + state + `"`
	}

	// The process ends while the list is being read. The next process does not know what happened in between, and the
	// page shows that.
	b.read(t)
	f.leadTo(gone)
	f.server.CloseClientConnections()
	b.until(t, "it says that it is cut off", told("cut"))
	b.accessible(t, "cut off")
	w.publish(t, "unheard")
	f.leadTo(w.another(t).handler)
	b.until(t, "it goes on by itself", told(""))
	b.until(t, "it says that something was missed", someMissed)
	if rows := ask[int](t, b, `document.querySelectorAll("[data-id]").length`); rows != 1 {
		t.Errorf("1 row became %d under the eyes of who reads", rows)
	}
	b.pressButton(t, "More has happened")
	b.until(t, "it is shown",
		`document.querySelector("[data-news]").hidden &&
			document.querySelector("[data-rows]").firstElementChild.innerText.includes("unheard")`)
	b.forget()

	// The session ends in another browser.
	signedIn.post(t, "/console/sign-out").leadsTo(t, "/console/sign-in")
	b.until(t, "it says that it standingOf still", told("refused"))
	b.accessible(t, "after its session")
	b.pointAt(t, 5, 5)
	b.pressButton(t, "Reload")
	b.until(t, "somebody has to sign in", `location.pathname === "/console/sign-in" && location.search.includes("next=")`)
}

// TestFormAfterSessionEndInBrowser: typed values survive the end of the session, and are sent after the next sign-in.
func TestFormAfterSessionEndInBrowser(t *testing.T) {
	t.Parallel()
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
	if err != nil || len(found) != 1 || len(found[0].Headers) == 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// leave presses a button, and waits for the next page.
func (b *tab) leave(t *testing.T, button string) {
	t.Helper()
	ask[bool](t, b, `document.documentElement.dataset.left = "yes"; true`)
	b.pressButton(t, button)
	b.until(t, "the page after "+button+" is there", `!document.documentElement.dataset.left`)
}

// TestWorkOfOtherProcessInBrowser shows the progress of another process's work.
func TestWorkOfOtherProcessInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	works, beat := adapters.ConsoleWorks{Pool: w.Pool}, time.Now().UTC().Truncate(time.Microsecond)
	work := console.Work{
		ID:           uuid.New(),
		Organization: w.org,
		Destination:  id,
		Kind:         "replay",
		Since:        beat,
		AfterAt:      beat,
		Until:        beat,
		State:        "running",
		Actor:        "key:test",
		Total:        300,
		Beat:         beat,
	}
	if err := works.Begin(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.open(t, "/console/destinations/"+id.String()+"/work/"+work.ID.String())
	b.shows(t, "at first", "0 of 300")
	work.Done = 200
	if err := works.Advance(t.Context(), work, beat.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	b.until(t, "it goes on",
		`document.querySelector("[data-progress]").innerText.includes("200 of 300") &&
			document.querySelector("progress").value === 200`)
	work.Done, work.State, work.Beat = 300, "done", beat.Add(time.Second)
	if err := works.Advance(t.Context(), work, beat.Add(2*time.Second)); err != nil {
		t.Fatal(err)
	}
	b.until(t, "it comes to its end", `document.querySelector("main").innerText.includes("All of them are on their way")`)
	b.quiet(t, "while it is looked at")
}

// TestLiveAllDeliveriesInBrowser: the list of deliveries to all destinations updates too, and names each destination.
func TestLiveAllDeliveriesInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	w.lives(t)
	shop, letter := w.subscribed(t, "Ticket shop", receiver(t, 204, "")), w.subscribed(t, "Old newsletter",
		receiver(t, 500, ""))
	server := httptest.NewServer(w.admin)
	t.Cleanup(server.CloseClientConnections) // live updates stay open
	t.Cleanup(server.Close)
	for name, b := range map[string]*tab{
		"/console": newTab(t, w.serve(t), w.signIn(t, w.key).cookie), "/console/organizations/" + w.org.String(): newTab(t,
			server.URL, w.operator(t).cookie),
	} {
		b.sized(t, 1280)
		b.pointAt(t, 5, 5)
		b.open(t, name+"/deliveries")
		b.until(t, "the page is connected", `document.querySelector("[data-live]").hasAttribute("data-connected")`)
		first := w.publish(t, "to-both")
		for _, to := range []uuid.UUID{shop, letter} {
			row := `document.querySelector('[data-id="` + dispatch.DeliveryID(first, to).String() + `"]')`
			if to == letter {
				b.until(t, "a row names its destination", row+`?.innerText.includes("Old newsletter")`)
			} else {
				b.until(t, "a row names its destination", row+`?.innerText.includes("Ticket shop")`)
			}
			if at := ask[string](t, b, row+`.querySelectorAll("a")[1].getAttribute("href")`); at != name+"/destinations/"+
				to.String() {
				t.Errorf("its destination is at %s", at)
			}
		}
		w.attempted(t, first, shop, 204, "")
		b.until(t, "what is there changes where it is", `document.querySelector('[data-id="`+dispatch.DeliveryID(first,
			shop).String()+`"]').innerText.includes("succeeded")`)
		b.accessible(t, name)
		b.quiet(t, name)
	}
}

// TestLiveDeliveryInBrowser: a delivery's page shows each attempt as it is made, without a reload.
func TestLiveDeliveryInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	event := w.publish(t, "concert")
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.open(t, "/console/deliveries/"+dispatch.DeliveryID(event, id).String())
	b.shows(t, "before", "pending", "None yet.")
	b.until(t, "the page is connected", `document.querySelector("[data-live]").hasAttribute("data-connected")`)
	ask[bool](t, b, `document.documentElement.dataset.here = "yes"; true`)
	w.attempted(t, event, id, 503, `{"error":"out of order"}`)
	b.until(t, "the attempt is shown",
		`document.querySelector('[data-part="attempts"]').innerText.includes("503") &&
			document.querySelector('[data-part="attempts"]').innerText.includes("out of order")`)
	b.until(t, "and its way goes on", `document.querySelector('[data-part="way"]').innerText.includes("attempt 1")`)
	if !ask[bool](t, b, `document.documentElement.dataset.here === "yes"`) {
		t.Error("the page was loaded anew")
	}
	b.accessible(t, "after an attempt")
	b.quiet(t, "after an attempt")
}
