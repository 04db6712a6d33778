package console_test

import (
	"strings"
	"testing"
	"time"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/projections/destinations"
)

// TestAlarm: problems of a destination stand on top of its page: failures in a row with their reason and the rest
// until it is disabled, and the events that a disabled one missed.
func TestAlarm(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := w.signIn(t, w.key)
	reader := w.signIn(t, w.scoped(t, "read"))
	id := w.subscribed(t, "Hook", receiver(t, 500, "no"))
	path := "/console/destinations/" + id.String()
	if p := b.get(t, path).expect(t, 200); strings.Contains(p.body, "alarm") {
		t.Error("something is wrong with a new destination")
	}
	for range 3 {
		w.attempted(t, w.publish(t, "concert"), id, 500, "no")
	}
	b.get(t, path).expect(t, 200, "3 failures in a row", "endpoint answered 500", "disabled after 97 more",
		path+"/recover", "Send what failed", `<span class="status failing">failing: 3</span>`)
	b.get(t, "/console/destinations?status=failing").expect(t, 200, `<span class="status failing">failing: 3</span>`)
	retried := w.publish(t, "fair")
	w.attemptedAs(t, retried, id, 503, "later", delivery.RecordAttempt{
		Number: 1, Trigger: delivery.Automatic, Retry: delivery.Retry{Schedule: []time.Duration{time.Hour}},
	})
	b.get(t, path+"/recover").expect(t, 200, "1 waits for its retry, 3 failed in the last 7 days", "Send 4")
	b.post(t, path+"/recover").leadsTo(t, path+"?done=recovering")
	if p := b.get(t, path+"/recover").expect(t, 200); strings.Contains(p.body, "waits for its retry") {
		t.Error("what is due waits for a retry")
	}
	if p := reader.get(t, path).expect(t, 200, "4 failures in a row"); strings.Contains(p.body, "Send what failed") {
		t.Error("a reader is shown a button")
	}
	// A success ends the streak, but neither what failed nor the way to send it.
	w.attempted(t, w.publish(t, "flea market"), id, 500, "no")
	w.attempted(t, w.publish(t, "opera"), id, 204, "")
	pill := `<span class="status failing">failing: 2</span>`
	p := b.get(t, path).expect(t, 200, pill, "1 waits for its retry, 1 failed", path+"/recover", "Send what failed")
	if strings.Contains(p.body, " in a row since") {
		t.Error("the streak goes on")
	}
	b.get(t, "/console/destinations").expect(t, 200, pill)
	b.post(t, path+"/disable").leadsTo(t, path+"?done=disabled")
	b.get(t, path+"/recover").expect(t, 200, "It is disabled", path+"/enable")
	if p := b.get(t, path+"/deliveries?status=waiting,retrying").expect(t, 200, path+"/recover",
		"<option selected>waiting,retrying</option>"); strings.Contains(p.body, "Send many again") {
		t.Error("what waits is to be sent again")
	}
	b.get(t, "/console/deliveries?status=failing,waiting").expect(t, 200, "<option selected>failing,waiting</option>")
	b.get(t, path).expect(t, 200, "No event was missed")
	w.publish(t, "missed/1")
	b.get(t, path).expect(t, 200, "1 event was missed since", "Send what was missed")
	last := w.publish(t, "missed/2")
	b.get(t, path).expect(t, 200, "2 events were missed since")
	b.get(t, path+"/enable").expect(t, 200, "1 waits for its retry, 1 failed", "by its schedule, and new",
		"Enable and send what failed")
	w.limit(t, organization.LimitBackfillEventsPerDay, 0) // looking costs nothing
	pages := []string{path, path + "/enable"}
	for _, page := range pages {
		b.get(t, page).expect(t, 200, "2 events were missed since")
	}
	release, granted, err := w.Commands.Quotas.Turn(t.Context(), w.org)
	if err != nil || !granted {
		t.Fatal(granted, err)
	}
	for _, page := range pages {
		b.get(t, page).expect(t, 200, "Events may have been missed since", "a backfill or another count runs")
	}
	release()
	for _, c := range []struct {
		copied int
		text   string
	}{{command.MaxBackfillEvents - 2, "10,000 events were missed"}, {1, "At least 10,000 of the events since"}} {
		if _, err := w.Pool.Exec(t.Context(), `INSERT INTO publications.publications
			SELECT copy.* FROM publications.publications p, generate_series(1, $2) n, jsonb_populate_record(
				NULL::publications.publications, to_jsonb(p) || jsonb_build_object('id', md5(n || random()::text)::uuid)) copy
			WHERE p.id = $1`, last, c.copied); err != nil {
			t.Fatal(err)
		}
		b.get(t, path).expect(t, 200, c.text)
	}
	b.post(t, path+"/enable").leadsTo(t, path+"?done=enabled")
	if p := b.get(t, path).expect(t, 200); strings.Contains(p.body, "missed since") {
		t.Error("an enabled one still misses events")
	}
}

// TestAlarm_autoDisabled: the page of a destination that was disabled automatically has the reason once.
func TestAlarm_autoDisabled(t *testing.T) {
	t.Parallel()
	w := open(t)
	id := w.destination(t, "Hook", receiver(t, 410, ""))
	disabled, err := destination.Aggregate.Execute(t.Context(), w.Store, id, destination.AutoDisable{
		Reason: "Disabled automatically after 100 consecutive failed attempts",
		At:     time.Now(),
	}, destination.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, disabled.Position, destinations.ReadModel.Name)
	w.signIn(t, w.key).get(t, "/console/destinations/"+id.String()).expect(t, 200,
		"<p>Disabled automatically after 100 consecutive failed attempts. No event was missed.</p>")
}

// TestAttempts_latestFirst: the latest attempt comes first, equal answers are shown once, and reasons in words.
func TestAttempts_latestFirst(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.signIn(t, s.key)
	event := mustID(t, s.names["event"])
	fails := mustID(t, s.names["fails"])
	again := func(number int) delivery.RecordAttempt {
		return delivery.RecordAttempt{Number: number, Trigger: delivery.ManualReplay}
	}
	s.attemptedAs(t, event, fails, 500, "<h1>Out of order</h1>", again(2))
	s.attemptedAs(t, event, fails, 503, "another", again(3))
	p := b.get(t, "/console/deliveries/"+s.names["failed"]).expect(t, 200, "Not a 2xx answer: the endpoint answered 500",
		"The same response as to attempt 2.", "Headers of the response", "x-request-id: f00d")
	if strings.Contains(p.body, "http_status") || strings.Count(p.body, "Out of order") != 1 {
		t.Errorf("a name of the API, or the same answer twice:\n%s", p.shown(""))
	}
	if third, first := strings.Index(p.body, "<h3>3. "), strings.Index(p.body, "<h3>1. "); third < 0 || first < third {
		t.Errorf("attempt 3 is at %d, attempt 1 at %d", third, first)
	}
}

// TestRecover_overTheCap: what is too much for one recovery is sent in parts by the CLI, which the page names.
func TestRecover_overTheCap(t *testing.T) {
	t.Parallel()
	w := open(t)
	id := w.destination(t, "Hook", receiver(t, 204, ""))
	if _, err := w.Pool.Exec(t.Context(), `INSERT INTO deliveries.deliveries (id, organization, destination, created_at,
			completed_at, revision, attempts, automatic, event_id, event_time, status, unsuccessful, type, source,
			subscriptions)
		SELECT gen_random_uuid(), $1, $2, now() - i * interval '1 second', now(), 0, 1, 1, gen_random_uuid(), now(),
			'failed', 'failed', 'news.item.added', '/news', '{}' FROM generate_series(1, 10001) i`, w.org, id); err != nil {
		t.Fatal(err)
	}
	b := w.signIn(t, w.key)
	path := "/console/destinations/" + id.String()
	b.get(t, "/console/destinations").expect(t, 200, "failing: 1,000+")
	p := b.get(t, path+"/recover").expect(t, 200, "carillon destinations recover "+id.String()+" --until ")
	if strings.Contains(p.body, "<button>Send") {
		t.Error("it can be sent at one time")
	}
}
