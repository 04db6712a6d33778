package console_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/destinations"
)

// TestAlarm: problems of a destination stand on top of its page: failures in a row with their reason and the rest
// until it is disabled, and the events that a disabled one missed.
func TestAlarm(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	reader := w.signIn(t, w.scoped(t, "read"))
	id := w.subscribed(t, "Hook", receiver(t, 500, "no"))
	path := "/console/destinations/" + id.String()
	b.get(t, path).expect(t, 200).lacks(t, "alarm")
	for range 3 {
		w.attempted(t, w.publish(t, "concert"), id, 500, "no")
	}
	b.get(t, path).expect(t, 200, "3 failures in a row", "endpoint answered 500", "disabled after 97 more",
		path+"/recover", "Send what failed")
	pill := `<span class="status failing">failing: 1</span>`
	b.get(t, "/console/destinations?status=failing").expect(t, 200).lacks(t, "Hook")
	retried := w.publish(t, "fair")
	w.attemptedAs(t, retried, id, 503, "later", firstOfMany)
	b.get(t, "/console/destinations?status=failing").expect(t, 200, pill)
	b.get(t, path+"/recover").expect(t, 200, "1 waits for its retry, 3 failed in the last 7 days", "Send 4")
	b.post(t, path+"/recover").leadsTo(t, path+"?done=recovering")
	b.get(t, path+"/recover").expect(t, 200).lacks(t, "waits for its retry")
	reader.get(t, path).expect(t, 200, "4 failures in a row").lacks(t, "Send what failed")
	// A success ends the streak, but neither what failed nor the way to send it.
	w.attempted(t, w.publish(t, "flea market"), id, 500, "no")
	w.attempted(t, w.publish(t, "opera"), id, 204, "")
	b.get(t, path).expect(t, 200, pill, "1 waits for its retry, 1 failed", path+"/recover", "Send what failed").
		lacks(t, " in a row since")
	b.get(t, "/console/destinations").expect(t, 200, pill)
	b.post(t, path+"/disable").leadsTo(t, path+"?done=disabled")
	b.get(t, path+"/recover").expect(t, 200, "It is disabled", path+"/enable")
	b.get(t, path+"/deliveries?status=waiting,retrying").expect(t, 200, path+"/recover",
		"<option selected>waiting,retrying</option>").lacks(t, "Send many again")
	b.get(t, "/console/deliveries?status=failing,waiting").expect(t, 200, "<option selected>failing,waiting</option>")
	b.get(t, path).expect(t, 200, "No event was missed")
	w.publish(t, "missed/1")
	b.get(t, path).expect(t, 200, "1 event was missed since", "Send what was missed")
	last := w.publish(t, "missed/2")
	b.get(t, path).expect(t, 200, "2 events were missed since")
	b.get(t, path+"/enable").expect(t, 200, "1 waits for its retry, 1 failed", "by its schedule, and new",
		"Enable and send what failed")
	w.limit(t, organization.LimitBackfillEventsPerDay, 0) // looking costs nothing
	b.get(t, path).expect(t, 200, "2 events were missed since")
	release, granted, err := w.Commands.Quotas.Turn(t.Context(), w.org)
	must.True(t, err == nil && granted, "%v %v", granted, err)
	b.get(t, path).expect(t, 200, "Events may have been missed since", "a backfill or another count runs")
	release()
	must.Get(w.Pool.Exec(t.Context(), `INSERT INTO publications.publications
		SELECT copy.* FROM publications.publications p, generate_series(1, $2) n, jsonb_populate_record(
			NULL::publications.publications, to_jsonb(p) || jsonb_build_object('id', md5(n || random()::text)::uuid)) copy
		WHERE p.id = $1`, last, command.MaxBackfillEvents-1))(t)
	b.get(t, path).expect(t, 200, "At least 10,000 events since")
	b.post(t, path+"/enable").leadsTo(t, path+"?done=enabled")
	b.get(t, path).expect(t, 200).lacks(t, "missed since")
}

// TestAlarm_autoDisabled: the page of a destination that was disabled automatically has the reason once.
func TestAlarm_autoDisabled(t *testing.T) {
	w := open(t)
	id := w.destination(t, "Hook", receiver(t, 410, ""))
	w.autoDisabled(t, id, "Disabled automatically after 100 consecutive failed attempts")
	w.signIn(t, w.key).get(t, "/console/destinations/"+id.String()).expect(t, 200,
		"<p>Disabled automatically after 100 consecutive failed attempts. No event was missed.</p>")
}

// autoDisabled disables a destination as the platform does.
func (w *world) autoDisabled(t *testing.T, id uuid.UUID, reason string) {
	t.Helper()
	disabled := must.Get(destination.Aggregate.Execute(t.Context(), w.Store, id, destination.AutoDisable{
		Reason: reason,
		At:     time.Now(),
	}, destination.Options{}))(t)
	w.Await(t, disabled.Position, destinations.ReadModel.Name)
}

// TestAttempts_latestFirst: the latest attempt comes first, equal answers are shown once, and reasons in words.
func TestAttempts_latestFirst(t *testing.T) {
	s := newScene(t)
	b := s.signIn(t, s.key)
	event := mustID(t, s.names["event"])
	fails := mustID(t, s.names["fails"])
	again := func(number int) delivery.RecordAttempt {
		return delivery.RecordAttempt{Number: number, Trigger: delivery.ManualReplay}
	}
	s.attemptedAs(t, event, fails, 500, "<h1>Out of order</h1>", again(2))
	s.attemptedAs(t, event, fails, 503, "another", again(3))
	p := b.get(t, "/console/deliveries/"+s.names["failed"]).expect(t, 200, "The endpoint answered 500.",
		"The same response as to attempt 2.", "Headers of the response", "x-request-id: f00d")
	if strings.Contains(p.body, "http_status") || strings.Count(p.body, "Out of order") != 1 {
		t.Errorf("a name of the API, or the same answer twice:\n%s", p.shown(""))
	}
	third, first := strings.Index(p.body, "<h3>3. "), strings.Index(p.body, "<h3>1. ")
	assert.True(t, third >= 0 && first >= third, "attempt 3 is at %d, attempt 1 at %d", third, first)
}

// TestRecover_overTheCap: what is too much for one recovery is sent in parts by the CLI, which the page names.
func TestRecover_overTheCap(t *testing.T) {
	w := open(t)
	id := w.destination(t, "Hook", receiver(t, 204, ""))
	w.Failed(t, w.org, id, 10_001)
	b := w.signIn(t, w.key)
	path := "/console/destinations/" + id.String()
	b.get(t, path+"/recover").expect(t, 200, "carillon destinations recover "+id.String()+" --until ").
		lacks(t, "<button>Send")
}

// TestActivity: one page has the changes of destinations, subscriptions and feeds of the own organization, deleted ones
// too, by kind, actor and time.
func TestActivity(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	const none = "There is none like that."
	b.get(t, "/console/activity").expect(t, 200, none)
	one, two := w.subscribed(t, "One <b>", receiver(t, 204, "")), w.destination(t, "Two", receiver(t, 204, ""))
	w.namedFeed(t, "Concerts")
	b.post(t, "/console/destinations/"+two.String()+"/delete")
	shown := b.get(t, "/console/activity").expect(t, 200, "created One <b>", "subscribed One <b>",
		"to everything", "created Concerts", "deleted Two", "/console/destinations/"+one.String())
	assert.True(t, strings.Index(shown.body, "deleted Two") <= strings.Index(shown.body, "created One"),
		"the latest change is not the first")
	for filter, want := range map[string]string{
		"kind=feed": "created Concerts", "actor=key:test": "created Two", "last=hour": "created Two",
		"until=2020-01-01T00:00": none, "actor=key:other": none, "kind=organization": none,
	} {
		p := b.get(t, "/console/activity?"+filter).expect(t, 200, want)
		if strings.Contains(p.body, "deleted Two") && want != "created Two" {
			t.Errorf("%s shows others", filter)
		}
	}
	_, otherKey := w.Organization(t, "Library")
	w.signIn(t, otherKey).get(t, "/console/activity?organization="+w.org.String()).expect(t, 200, none)
}

// TestSignedCurl: the command carries signatures that receivers take; it is recorded, and only for those who may see
// secrets.
func TestSignedCurl(t *testing.T) {
	s := newScene(t)
	b := s.signIn(t, s.key)
	works := mustID(t, s.names["works"])
	path := "/console/deliveries/" + s.names["delivered"]
	b.get(t, path).expect(t, 200, path+`/curl"`, "data-copy")
	shown := b.post(t, path+"/curl").expect(t, 200, "webhook-signature: v1,", "data-copy")
	command := html.UnescapeString(regexp.MustCompile(`data-copy="([^"]+)"`).FindStringSubmatch(shown.body)[1])
	header := http.Header{}
	for _, line := range regexp.MustCompile(`-H '([^']+)'`).FindAllStringSubmatch(command, -1) {
		name, value, _ := strings.Cut(line[1], ": ")
		header.Set(name, value)
	}
	body := regexp.MustCompile(`(?s)--data-binary '(.*)'`).FindStringSubmatch(command)[1]
	found := must.Get(s.Queries.Destination(t.Context(), s.org, works.String(), s.now()))(t)
	revealed := b.post(t, "/console/destinations/"+works.String()+"/secrets/"+found.Secrets[0].ID.String()+"/reveal")
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{40,}`).FindString(html.UnescapeString(revealed.body))
	verifier := must.Get(standardwebhooks.NewWebhook(secret))(t)
	if err := verifier.Verify([]byte(body), header); err != nil {
		t.Errorf("%v: %s", err, command)
	}
	assert.True(t, s.lastDisclosure(t, works) != eventstore.Start, "it is not recorded")
	writer := s.signIn(t, s.scoped(t, "read", "write"))
	writer.get(t, path).expect(t, 200).lacks(t, "/curl\"")
	writer.post(t, path+"/curl").expect(t, 403, "lacks the scope secrets")
	s.operator(t).post(t, "/console/organizations/"+s.org.String()+"/deliveries/"+s.names["delivered"]+"/curl").
		expect(t, 403, "for the people of the organization")
	_, otherKey := s.Organization(t, "Library")
	s.signIn(t, otherKey).post(t, path+"/curl").expect(t, 404, "Not found")
	b.send(t, http.MethodPost, path+"/curl", nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}).expect(t, 400)
}
