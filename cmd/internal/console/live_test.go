package console_test

import (
	"bufio"
	"context"
	"html"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore"
	readmodels "carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/operators"
	"carillon/projections/organizations"
)

// stream opens a page's connection.
func (w *world) stream(t *testing.T, base, cookie, path string) (status int, lines <-chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"carillon_console", "carillon_operators"} { // each console reads its own
		r.AddCookie(&http.Cookie{Name: name, Value: cookie}) //nolint:gosec // the browser's side of it
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
			all <- scanner.Text()
		}
	}()
	return answer.StatusCode, all
}

// hears waits for a line with all of some texts.
func hears(t *testing.T, lines <-chan string, texts ...string) {
	t.Helper()
	patience := time.After(apitest.Patience)
next:
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatalf("the stream ended before %q", texts)
			}
			for _, text := range texts {
				if !strings.Contains(line, text) {
					continue next
				}
			}
			return
		case <-patience:
			t.Fatalf("heard nothing of %q", texts)
		}
	}
}

func ends(t *testing.T, lines <-chan string) {
	t.Helper()
	patience := time.After(apitest.Patience)
	for {
		select {
		case _, open := <-lines:
			if !open {
				return
			}
		case <-patience:
			t.Fatal("the stream goes on")
		}
	}
}

// TestLiveUpdates: changes of deliveries are sent to the pages of their organization only, until the session or its
// key ends.
func TestLiveUpdates(t *testing.T) {
	t.Parallel()
	w := open(t)
	base := w.serve(t)
	id := w.subscribed(t, "Hook", receiver(t, 204, ""))
	b := w.signIn(t, w.key)
	if p := b.get(t, "/console/live?of=deliveries"); p.status != http.StatusNoContent {
		t.Errorf("where nothing is told: %d", p.status)
	}
	w.lives(t)
	of := "/console/live?of=destination&id=" + id.String()
	var all <-chan string
	apitest.Eventually(t, "live parts are there", func() (there bool) {
		var status int
		status, all = w.stream(t, base, b.cookie, "/console/live?of=deliveries")
		return status == http.StatusOK
	})
	_, failures := w.stream(t, base, b.cookie, of+"&status=failed")
	hears(t, all, "event: open")
	hears(t, failures, "event: open")

	_, otherKey := w.Organization(t, "Library")
	other := w.signIn(t, otherKey)
	for _, path := range []string{of, "/console/live?of=work&id=x", "/console/live", "/console/live?of=delivery&id=" +
		uuid.NewString()} {
		other.get(t, path).expect(t, 404, "Not found")
	}
	other.get(t, "/console/live?of=deliveries&status=strange").expect(t, 400, "must be one of")
	(&browser{world: w}).get(t, of).leadsTo(t, "/console/sign-in?next=%2Fconsole%2Flive%3Fof%3Ddestination%26id%3D"+
		id.String())
	_, theirs := w.stream(t, base, other.cookie, "/console/live?of=deliveries")
	hears(t, theirs, "event: open")

	// Until the source follows the store, pages get nothing; so deliveries are made until they do.
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		hears(t, all, "data:", `pending`)
	}()
	var event uuid.UUID
	apitest.Eventually(t, "a delivery is told", func() bool {
		event = w.publish(t, "concert")
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
	delivery := dispatch.DeliveryID(event, id).String()
	apitest.Eventually(t, "the last one is listed", func() bool {
		return b.get(t, "/console/deliveries/"+delivery).status == http.StatusOK
	})
	_, one := w.stream(t, base, b.cookie, "/console/live?of=delivery&id="+delivery)
	hears(t, one, "event: open")
	w.attempted(t, event, id, 500, "no")
	hears(t, all, delivery, "failed")
	hears(t, one, delivery, "failed")
	hears(t, failures, "event: row")
	hears(t, failures, delivery, "failed")

	// Updates end with a sign-out, and with the revocation of the key.
	b.post(t, "/console/sign-out").leadsTo(t, "/console/sign-in")
	ends(t, all)
	ends(t, one)
	keys, err := w.Queries.Keys(t.Context(), w.org)
	if err != nil {
		t.Fatal(err)
	}
	again := w.signIn(t, w.key)
	_, revoked := w.stream(t, base, again.cookie, of)
	hears(t, revoked, "event: open")
	at, err := w.Commands.RevokeKey(t.Context(), apitest.Operator, command.RevokeKey{
		Organization: w.org,
		KeyID:        keys[0].ID,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, at, organizations.ReadModel.Name)
	ends(t, revoked)
	select {
	case line := <-theirs:
		if strings.Contains(line, "data: {") {
			t.Errorf("another organization hears %s", line)
		}
	default:
	}
}

// TestLiveUpdates_lateReadModel: changes are sent once the read model has them, also to a page that was opened after
// they happened.
func TestLiveUpdates_lateReadModel(t *testing.T) {
	t.Parallel()
	w := openAlone(t) // changes of other tests would be heard as well
	id := w.subscribed(t, "Hook", receiver(t, 204, ""))
	deps, api := w.dependencies(t)
	awaited, readable := make(chan struct{}), make(chan struct{})
	deps.Await = func(ctx context.Context, to eventstore.Position, consumers ...string) bool {
		if slices.Contains(consumers, deliveries.ReadModel.Name) { // only live updates wait for it here
			select {
			case awaited <- struct{}{}:
			case <-readable:
			}
			<-readable
		}
		return w.Patient(ctx, to, consumers...)
	}
	follows := make(chan struct{}, 1)
	settle := deps.Settle
	deps.Settle = func(ctx context.Context, model readmodels.ReadModel) error {
		follows <- struct{}{} // from the previous end of the store
		return settle(ctx, model)
	}
	c, err := console.New(deps)
	if err != nil {
		t.Fatal(err)
	}
	w.handler = c.Beside(api)
	runs(t, c)
	base := w.serve(t)
	_, otherKey := w.Organization(t, "Library")
	other := w.signIn(t, otherKey)
	apitest.Eventually(t, "live parts are there", func() bool {
		status, _ := w.stream(t, base, other.cookie, "/console/live?of=deliveries")
		return status == http.StatusOK
	})
	soon := func(signal <-chan struct{}, what string) {
		select {
		case <-signal:
		case <-time.After(apitest.Patience):
			t.Fatal(what)
		}
	}
	soon(follows, "nothing is followed")
	event := w.publish(t, "concert")
	soon(awaited, "nobody waits until it can be read")

	b := w.signIn(t, w.key)
	page := b.get(t, "/console/destinations/"+id.String()+"/deliveries")
	_, following, _ := strings.Cut(page.body, `data-live="`)
	following, _, _ = strings.Cut(following, `"`)
	_, lines := w.stream(t, base, b.cookie, html.UnescapeString(following))
	hears(t, lines, "event: open")
	close(readable)
	hears(t, lines, "data:", dispatch.DeliveryID(event, id).String())
}

// TestLiveUpdatesOfOperators: an operator's live updates end with the revocation or rotation of the token. Those of
// others continue.
func TestLiveUpdatesOfOperators(t *testing.T) {
	t.Parallel()
	w := open(t)
	base := serveAt(t, w.admin)
	w.subscribed(t, "Hook", receiver(t, 204, ""))
	w.lives(t)
	await := func(at eventstore.Position, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		w.Await(t, at, operators.ReadModel.Name)
	}
	follow := func(token string) (lines <-chan string) {
		t.Helper()
		b := w.signInAt(t, w.admin, token)
		apitest.Eventually(t, "live parts are there", func() (there bool) {
			var status int
			status, lines = w.stream(t, base, b.cookie, "/console/organizations/"+w.org.String()+"/live?of=deliveries")
			return status == http.StatusOK
		})
		hears(t, lines, "event: open")
		return lines
	}
	pages := map[string]<-chan string{}
	for _, name := range []string{"ann", "bob"} {
		issued, at, err := w.Commands.IssueOperatorToken(t.Context(), apitest.Operator,
			command.IssueOperatorToken{Name: name})
		await(at, err)
		pages[name] = follow(issued.Token.Reveal())
	}
	configured := follow(adminToken)

	await(w.Commands.RevokeOperator(t.Context(), apitest.Operator, command.RevokeOperator{Name: "ann"}))
	ends(t, pages["ann"])
	_, at, err := w.Commands.RotateOperatorToken(t.Context(), apitest.Operator, command.RotateOperatorToken{Name: "bob"})
	await(at, err)
	ends(t, pages["bob"])

	heard := make(chan struct{})
	go func() {
		defer close(heard)
		hears(t, configured, "data:", "pending")
	}()
	apitest.Eventually(t, "a delivery is told", func() bool {
		w.publish(t, "concert")
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
}
