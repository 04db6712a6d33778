package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/eventstore"
)

func TestFailedDeliveryIsReplayed(t *testing.T) {
	p := start(t, nil)
	url, arrived := p.endpoint(statuses(500, 500, 500, 200)) // two waits make three attempts
	destination := p.connect("crm", url, 0)
	id := deliveryOf(p.publish(), destination)
	failed := p.settled(id, "failed")
	if failed["nextAttemptAt"] != nil || failed["completedAt"] == nil || failed["attemptCount"] != 3.0 {
		t.Errorf("failed: %v", failed)
	}
	p.eventually("its health shows the streak", func() bool {
		d := p.call(http.MethodGet, destinations+"crm", nil, http.StatusOK)
		return d["consecutiveFailures"] == 3.0 && d["lastFailureAt"] != nil && d["lastErrorMessage"] != nil && d["lastSuccessAt"] == nil
	})
	p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "disabled", "debounceWindowSeconds": 3600}, http.StatusOK)
	run := p.call(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusAccepted)
	if run["deliveryId"] != id || run["workflowId"] == id {
		t.Errorf("replay = %v", run)
	}
	for range 4 { // the last one although the destination is disabled, and without a debounce window
		if got := p.await(arrived); got.header.Get("webhook-id") != id {
			t.Errorf("webhook-id = %s, want the same for all attempts", got.header.Get("webhook-id"))
		}
	}
	replayed := p.settled(id, "succeeded")
	if last := lastAttempt(t, replayed); last["trigger"] != "manual_replay" || last["attemptNumber"] != 4.0 || last["responseStatus"] != 200.0 {
		t.Errorf("last attempt = %v", last)
	}
	p.eventually("its health is mended", func() bool {
		d := p.call(http.MethodGet, destinations+"crm", nil, http.StatusOK)
		return d["consecutiveFailures"] == 0.0 && d["lastFailureAt"] == nil && d["lastErrorMessage"] == nil && d["lastSuccessAt"] != nil
	})
}

func TestReplayIsRefusedWhileInFlight(t *testing.T) {
	p := start(t, nil)
	answer := make(chan struct{})
	url, arrived := p.endpoint(func(http.ResponseWriter, *http.Request, int) { <-answer })
	destination := p.connect("crm", url, 0)
	id := deliveryOf(p.publish(), destination)
	p.await(arrived)
	p.delivery(id, "is being sent", func(d map[string]any) bool { return d["status"] == "delivering" })
	if message := p.refused(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusConflict, "ALREADY_EXISTS"); !strings.Contains(message, "in flight") {
		t.Errorf("message = %s", message)
	}
	close(answer)
	p.settled(id, "succeeded")
}

// Another driver sends the delivery at the same time, and records its attempt first.
func TestTwoDriversRace(t *testing.T) {
	p := start(t, nil)
	answer := make(chan struct{})
	url, arrived := p.endpoint(func(http.ResponseWriter, *http.Request, int) { <-answer })
	destination := p.connect("crm", url, 0)
	id := deliveryOf(p.publish(), destination)
	p.await(arrived)
	command := delivery.RecordAttempt{
		Organization: organization, Destination: uuid.MustParse(destination), Number: 1, Trigger: delivery.Automatic, At: time.Now().UTC().Truncate(time.Microsecond),
		Outcome: delivery.Outcome{FailureReason: "timeout", ErrorMessage: "the endpoint did not answer"},
	}
	metadata := eventstore.Metadata{Organization: organization, Actor: "deliverer"}
	if _, err := delivery.Aggregate.Execute(t.Context(), p.app.Commands.Store, uuid.MustParse(id),
		command, delivery.Options{Metadata: metadata}); err != nil {
		t.Fatal(err)
	}
	close(answer)
	raced := p.attempted(id, 2)
	attempts, ok := raced["attempts"].([]any)
	if !ok || len(attempts) != 2 {
		t.Fatalf("attempts = %v", raced["attempts"])
	}
	first, _ := attempts[0].(map[string]any)
	second, _ := attempts[1].(map[string]any)
	if first["renumberedFrom"] != nil || second["renumberedFrom"] != 1.0 || second["attemptNumber"] != 2.0 {
		t.Errorf("attempts = %v, want the second renumbered from 1", attempts)
	}
	if raced["status"] != "succeeded" {
		t.Errorf("status = %v: it arrived", raced["status"])
	}
}

func TestAnswersOfEndpoints(t *testing.T) {
	p := start(t, func(c *config.Config) { c.DeliveryRetrySchedule = []time.Duration{time.Hour} })
	elsewhere := make(chan struct{}, 10)
	long := strings.Repeat("ü", 10_001)
	type kind struct {
		answer       answers
		status, body any
		reason       any
		check        func(delivery, attempt map[string]any) string
	}
	wait := func(delivery, attempt map[string]any) time.Duration {
		return instant(t, delivery["nextAttemptAt"]).Sub(instant(t, attempt["attemptedAt"]))
	}
	for name, tt := range map[string]kind{
		"redirect": {func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.URL.Path != "/hook" {
				elsewhere <- struct{}{}
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 307.0, "", "redirect", nil},
		"retry-after": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 503.0, "", "http_status", func(d, a map[string]any) string {
			if w := wait(d, a); w < 2*time.Hour || w > 2*time.Hour*12/10+time.Minute { // up to a fifth is added
				return fmt.Sprintf("waits %s, want the two hours it asked for", w)
			}
			return ""
		}},
		"retry-after-of-another-status": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusInternalServerError)
		}, 500.0, "", "http_status", func(d, a map[string]any) string {
			if w := wait(d, a); w < 48*time.Minute || w > 73*time.Minute {
				return fmt.Sprintf("waits %s, want an hour, more or less a fifth", w)
			}
			return ""
		}},
		"long": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(long))
		}, 400.0, strings.Repeat("ü", 10_000) + "… [truncated]", "http_status", nil},
		"cut": {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, nil, nil, "connection", nil},
		"accepted": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte("queued"))
		}, 202.0, "queued", nil, nil},
	} {
		url, _ := p.endpoint(tt.answer)
		destination := p.connect(name, url, 0)
		got := p.attempted(deliveryOf(p.publish(), destination), 1)
		attempt := lastAttempt(t, got)
		if attempt["responseStatus"] != tt.status || attempt["responseBody"] != tt.body || attempt["failureReason"] != tt.reason || (attempt["errorMessage"] == nil) != (tt.reason == nil) {
			t.Errorf("%s: %.300v", name, attempt)
		}
		if want := map[bool]string{true: "pending", false: "succeeded"}[tt.reason != nil]; got["status"] != want {
			t.Errorf("%s: status %v, want %s", name, got["status"], want)
		}
		if tt.check != nil {
			if complaint := tt.check(got, attempt); complaint != "" {
				t.Errorf("%s: %s", name, complaint)
			}
		}
		p.call(http.MethodPatch, destinations+name, map[string]any{"status": "disabled"}, http.StatusOK) // the next event is not for it
	}
	if len(elsewhere) > 0 {
		t.Error("a redirect was followed")
	}
}

func TestNoAnswerInTimeIsAFailure(t *testing.T) {
	p := start(t, func(c *config.Config) {
		c.DeliveryTimeout, c.DeliveryRetrySchedule = 100*time.Millisecond, []time.Duration{time.Hour}
	})
	url, _ := p.endpoint(func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
	destination := p.connect("crm", url, 0)
	got := p.attempted(deliveryOf(p.publish(), destination), 1)
	if last := lastAttempt(t, got); last["failureReason"] != "timeout" || last["responseStatus"] != nil || last["errorMessage"] == nil || got["status"] != "pending" {
		t.Errorf("delivery = %v", got)
	}
}

func TestBothSecretsSignUntilOneIsExpired(t *testing.T) {
	p := start(t, nil)
	url, arrived := p.endpoint(statuses(200))
	p.connect("crm", url, 0)
	first := p.secrets("crm")[0]
	p.publish()
	verified(t, p.await(arrived), first.secret)
	rotated := p.call(http.MethodPost, destinations+"crm/secrets/rotate", map[string]any{}, http.StatusOK)
	both := secretsOf(t, rotated)
	p.publish()
	verified(t, p.await(arrived), both[0].secret, first.secret)
	p.call(http.MethodPost, destinations+"crm/secrets/"+first.id+"/expire", nil, http.StatusOK)
	p.publish()
	verified(t, p.await(arrived), both[0].secret)
}

func TestDeletedDestinationStopsWhatIsInFlight(t *testing.T) {
	p := start(t, func(c *config.Config) { c.DeliveryTimeout = time.Minute })
	hungUp := make(chan struct{}, 1)
	url, arrived := p.endpoint(func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError) // this one waits for its retry
			return
		}
		<-r.Context().Done()
		hungUp <- struct{}{}
	})
	destination := p.connect("crm", url, 0)
	p.call(http.MethodPut, destinations+"other", map[string]any{"name": "other", "config": map[string]any{"url": url}}, http.StatusCreated)
	event := p.publish()
	p.await(arrived)
	p.await(arrived)
	id := deliveryOf(event, destination)
	p.call(http.MethodDelete, destinations+"crm", nil, http.StatusOK)
	p.refused(http.MethodGet, "/events/deliveries/"+id, nil, http.StatusNotFound, "NOT_FOUND")
	p.refused(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusNotFound, "NOT_FOUND")
	p.refused(http.MethodGet, destinations+"crm/deliveries", nil, http.StatusNotFound, "NOT_FOUND")
	select {
	case <-hungUp:
	case <-time.After(patience):
		t.Fatal("the request in flight went on")
	}
	if again := p.publish(); p.total(destinations+"other/deliveries") != 0 {
		t.Errorf("event %s went to a destination without a subscription", again)
	}
	p.refused(http.MethodGet, "/events/deliveries/"+id, nil, http.StatusNotFound, "NOT_FOUND")
	if len(arrived) > 0 {
		t.Error("something was sent after the deletion")
	}
}

// The process that was asked to delete a destination died as soon as the event was recorded.
func TestDeletionThatWasCutOffIsFinished(t *testing.T) {
	p := start(t, nil)
	url, _ := p.endpoint(statuses(200))
	id := uuid.MustParse(p.connect("crm", url, 0))
	command := destination.Delete{Organization: organization, At: time.Now().UTC().Truncate(time.Microsecond)}
	metadata := eventstore.Metadata{Organization: organization, Actor: "key:test"}
	if _, err := destination.Aggregate.Execute(t.Context(), p.app.Commands.Store, id,
		command, destination.Options{Metadata: metadata}); err != nil {
		t.Fatal(err)
	}
	if again := p.connect("crm", url, 0); again == id.String() {
		t.Error("the deleted destination is back")
	}
	p.eventually("its data key is gone", func() bool {
		var keys int
		if err := p.app.Queries.Pool.QueryRow(t.Context(), "SELECT count(*) FROM carillon.data_keys WHERE id = $1", id).Scan(&keys); err != nil {
			t.Fatal(err)
		}
		return keys == 0
	})
}
