package console_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/sending"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/query"
)

// TestStanding: a delivery's page shows why it is in its state, for each reason.
func TestStanding(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	event := w.publish(t, "concert/1")
	path := "/console/deliveries/" + dispatch.DeliveryID(event, id).String()
	b.get(t, path).expect(t, 200, "It is due, and waits for its turn.")
	other := w.publish(t, "concert/2")
	b.get(t, path).expect(t, 200, "waits for its turn: 2 deliveries wait for this destination")

	unsendable := func() {
		t.Helper()
		b.get(t, path+"/retry").expect(t, 200, "It can't be sent now").lacks(t, "Send now<")
	}
	w.switches(t, id, false)
	b.get(t, path).expect(t, 200, "It waits because its destination is disabled.")
	unsendable()
	w.switches(t, id, true)

	retry := delivery.Retry{Schedule: []time.Duration{time.Hour}}
	w.attemptedAs(t, event, id, 503, "later", delivery.RecordAttempt{Number: 1, Trigger: delivery.Automatic, Retry: retry})
	b.get(t, path).expect(t, 200, "It waits for its next attempt, in ", "next attempt", path+"/retry", "Send now")
	b.get(t, path+"/retry").expect(t, 200, "waits for its next attempt")
	b.post(t, path+"/retry").leadsTo(t, path+"?done=retried")
	b.get(t, path).expect(t, 200, "It is due, and waits for its turn")
	w.attemptedAs(t, event, id, 503, "later", delivery.RecordAttempt{Number: 2, Trigger: delivery.Automatic, Retry: retry})
	b.get(t, path).expect(t, 200, "No attempt is planned any more.")
	unsendable()

	// A replay is sent at once, even to a disabled destination.
	w.switches(t, id, false)
	b.post(t, path+"/replay").leadsTo(t, path+"?done=replayed")
	b.get(t, path).expect(t, 200, "It is due, and waits for its turn")
	w.switches(t, id, true)

	// It arrives by a replay; a later failure does not change that.
	w.attemptedAs(t, event, id, 201, "", delivery.RecordAttempt{Number: 3, Trigger: delivery.ManualReplay})
	b.get(t, path).expect(t, 200, "succeeded").lacks(t, "It had arrived", "No attempt is planned")
	w.attemptedAs(t, event, id, 500, "no", delivery.RecordAttempt{Number: 4, Trigger: delivery.ManualReplay})
	b.get(t, path).expect(t, 200, "It had arrived: attempt 3 was answered with 201", "takes nothing back")

	// A debounce window holds a delivery back, and a newer one supersedes it.
	window := 600
	out := must.Get(w.Commands.ReviseDestination(t.Context(), w.by(w.org), command.ReviseDestination{
		ID: id,
		DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{Plain: destination.Plain{DebounceWindowSeconds: window}},
		},
		Sets: destination.FieldDebounce,
	}))(t)
	w.Await(t, out.Position, destinations.ReadModel.Name, dispatching.Name)
	first := w.publish(t, "concert/3")
	held := "/console/deliveries/" + dispatch.DeliveryID(first, id).String()
	b.get(t, held).expect(t, 200, "wants events of one type, subject, source and feed at most every 600 s")
	superseded := must.Get(delivery.Aggregate.Execute(t.Context(), w.Store, dispatch.DeliveryID(first, id),
		delivery.Supersede{By: dispatch.DeliveryID(other, id), At: time.Now()}, delivery.Options{}))(t)
	w.Await(t, superseded.Position, deliveries.ReadModel.Name)
	b.get(t, held).expect(t, 200, "a newer event of its type, subject, source and feed took its place")

	// A lost key fails attempts until the values that it sealed are set again.
	waits := "/console/deliveries/" + dispatch.DeliveryID(other, id).String()
	b.get(t, waits).lacks(t, "read any more")
	operator := w.operator(t)
	w.suspend(t)
	inside := strings.Replace(waits, "/console", "/console/organizations/"+w.org.String(), 1)
	operator.get(t, inside).expect(t, 200, "It waits because the organization is suspended")
	must.OK(t, w.Commands.Vault.Shred(t.Context(), id))
	operator.get(t, inside).expect(t, 200, "data key is lost, so attempts fail")
}

// TestAttemptHeaders: the headers of an attempt's request are those that the receiver got, with signatures of expired
// secrets too.
func TestAttemptHeaders(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	path := "/console/destinations/" + id.String()
	secret := regexp.MustCompile(`whsec_[^<]+`)
	reveal := func() string {
		t.Helper()
		found := must.Get(w.Queries.Destination(t.Context(), w.org, id.String(), time.Now()))(t)
		return secret.FindString(html.UnescapeString(b.post(t, path+"/secrets/"+found.Secrets[0].ID.String()+"/reveal").body))
	}
	old := reveal()
	event := w.publish(t, "concert/1")
	w.attemptedAs(t, event, id, 503, "later", delivery.RecordAttempt{Number: 1, Trigger: delivery.Automatic})
	b.post(t, path+"/rotate")
	young := reveal()
	w.attemptedAs(t, event, id, 503, "later", delivery.RecordAttempt{Number: 2, Trigger: delivery.ManualReplay})
	must.True(t, old != young, "it was not rotated")
	detail, err := w.Queries.Delivery(t.Context(), w.org, dispatch.DeliveryID(event, id), time.Now())
	must.True(t, err == nil && !detail.Event.RecordedAt.IsZero(), "recorded at %v, %v", detail.Event.RecordedAt, err)
	requests := regexp.MustCompile(`(?s)aria-label="Headers of the request">(.*?)</pre>`).FindAllStringSubmatch(b.get(t,
		"/console/deliveries/"+detail.ID.String()).expect(t, 200, "Request").body, -1)
	must.Equal(t, len(requests), 2, "requests are shown")
	for i, signedBy := range [][]string{{old, young}, {old}} {
		body := must.Get(sending.NewBody(event, publication.Published{
			Organization: w.org,
			Type:         detail.Event.Type,
			Source:       detail.Event.Source,
			Subject:      query.Of(detail.Event.Subject),
			Time:         detail.Event.Time,
			Data:         detail.Data,
		}, detail.Event.RecordedAt).Bytes())(t)
		header := http.Header{}
		for line := range strings.Lines(html.UnescapeString(requests[i][1])) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			header.Set(name, value)
		}
		if signatures := strings.Fields(header.Get("webhook-signature")); len(signatures) != len(signedBy) {
			t.Fatalf("attempt %d has the signatures %q", i+1, signatures)
		}
		for _, text := range signedBy {
			verifier := must.Get(standardwebhooks.NewWebhook(text))(t)
			if err := verifier.Verify(body, header); err != nil {
				t.Errorf("attempt %d: %v", i+1, err)
			}
		}
	}

	// Without the scope for secrets, the rest is visible.
	w.operator(t).get(t, "/console/organizations/"+w.org.String()+"/deliveries/"+detail.ID.String()).
		expect(t, 200, "webhook-timestamp: ").lacks(t, "webhook-signature")
}

// TestDeliveryPageSize: whatever a receiver answers, however often, and whatever the payload, the page stays small.
func TestDeliveryPageSize(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	event := must.Get(w.Commands.Publish(t.Context(), apitest.Operator, command.Publish{
		Type:         "news.item.added",
		Source:       "/feeds/x",
		Subject:      strings.Repeat(`"`, 200),
		Organization: w.org,
		Data:         []byte(`{"id":"7","title":"` + strings.Repeat(`<\"+'`, 8_000) + `"}`),
	}))(t)
	w.Await(t, event.Position, dispatching.Name)
	for i := range 30 {
		w.attemptedAs(t, event.ID, id, 500, strings.Repeat(`<"+'>`, 2_000), delivery.RecordAttempt{
			Number:  i + 1,
			Trigger: delivery.ManualReplay,
		})
	}
	p := b.get(t, "/console/deliveries/"+dispatch.DeliveryID(event.ID, id).String()).expect(t, 200, "attempts 1 to 18",
		"attempt 30", "10000 bytes in all", "Those before the latest 12 are not shown.")
	assert.True(t, len(p.body) <= maxPageBytes, "%d bytes", len(p.body))
}
