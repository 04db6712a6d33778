package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

type secretView struct {
	ID        string     `json:"id"`
	Secret    string     `json:"secret"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

type secretsView struct {
	Secrets []secretView `json:"secrets"`
}

func (s *server) secrets(t *testing.T, ref string) []secretView {
	t.Helper()
	found := into[secretsView](t, 200, s.get(t, destinationsPath+"/"+ref+"/secrets"))
	return found.Secrets
}

func (s *server) rotate(t *testing.T, ref string) []secretView {
	t.Helper()
	found := into[secretsView](t, 200, s.post(t, destinationsPath+"/"+ref+"/secrets/rotate", ""))
	return found.Secrets
}

func TestRotationOverlapsForADay(t *testing.T) {
	s := serve(t)
	created := s.destination(t, "crm")
	got := s.secrets(t, "crm")
	assert.True(t, len(got) == 1 && got[0].Secret == created.Secrets[0].Secret && got[0].ID == created.Secrets[0].ID,
		"secrets = %+v, want the one of the create answer in full", got)
	before := time.Now()
	rotated := s.rotate(t, "crm")
	assert.Same(t, s.secrets(t, created.ID), rotated)
	must.True(t, len(rotated) == 2 && rotated[0].ExpiresAt == nil && rotated[0].Secret != rotated[1].Secret &&
		len(rotated[0].Secret) == len("whsec_")+44,
		"after a rotation: %+v, want the new one first, in full, never expiring", rotated)
	first := rotated[1]
	assert.True(t, first.ID == created.Secrets[0].ID && first.ExpiresAt != nil &&
		!first.ExpiresAt.Before(before.Add(24*time.Hour-time.Second)) &&
		!first.ExpiresAt.After(time.Now().Add(24*time.Hour)), "the old one: %+v, want it to expire in 24 hours", first)
	again := s.rotate(t, "crm")
	assert.True(t, len(again) == 3 && again[0].ExpiresAt == nil && again[1].ExpiresAt != nil &&
		again[2].ExpiresAt.Equal(*first.ExpiresAt),
		"after another rotation: %+v, want the first to keep the end of its overlap", again)
	found := s.read(t, "crm")
	for i, secret := range found.Secrets {
		assert.True(t, secret.ID == again[i].ID && strings.HasPrefix(secret.Secret, "whsec_…") &&
			strings.HasSuffix(again[i].Secret, strings.TrimPrefix(secret.Secret, "whsec_…")),
			"masked secret %d = %+v", i, secret)
	}
	s.wrote(t, "destination-"+created.ID, "destination.created.v2", "destination.secret-minted.v1",
		"destination.secret-rotated.v1", "destination.secret-rotated.v1")
	for range 7 {
		s.rotate(t, "crm")
	}
	s.post(t, destinationsPath+"/crm/secrets/rotate", "").refused(t, 409, "CONFLICT", "10 secrets are active")
	s.post(t, destinationsPath+"/crm/secrets/"+first.ID+"/expire", "").into(t, 200, new(any))
	assert.Equal(t, len(s.rotate(t, "crm")), 10, "secrets")
	log, stored := s.logged(t), s.stored(t, "destination-"+created.ID)
	for _, secret := range again {
		assert.True(t, !strings.Contains(log, secret.Secret[6:]) && !strings.Contains(stored, secret.Secret[6:]) &&
			!strings.Contains(stored, "t0ken"), "a secret or a header's value is in the log or in an event in the clear")
	}
}

// The answer to a change of secrets is what the change left, however late the read model is.
func TestSecretsAnswerWithoutReadModel(t *testing.T) {
	s := serve(t)
	created := s.destination(t, "crm")
	s.rewire(t, func(p *httpapi.Dependencies) {
		p.Await = func(context.Context, eventstore.Position, ...string) bool { return false }
	})
	known := created.Secrets[0].ID
	for range 5 {
		rotated := s.rotate(t, created.ID)
		must.True(t, len(rotated) == 2 && rotated[0].ExpiresAt == nil && rotated[1].ID == known &&
			rotated[1].ExpiresAt != nil, "after a rotation: %+v, want the new one and %s, which expires", rotated, known)
		left := into[secretsView](t, 200, s.post(t, destinationsPath+"/"+created.ID+"/secrets/"+known+"/expire", ""))
		if len(left.Secrets) != 1 || left.Secrets[0].ID != rotated[0].ID {
			t.Fatalf("after an expiry: %+v, want %s alone", left.Secrets, rotated[0].ID)
		}
		known = rotated[0].ID
	}
}

// stored returns the events of a stream.
func (s *server) stored(t *testing.T, stream string) string {
	t.Helper()
	var all strings.Builder
	for recorded, err := range s.Store.Read(t.Context(), stream, 0) {
		must.OK(t, err)
		all.Write(recorded.Data)
		all.Write(recorded.Metadata)
	}
	return all.String()
}

func TestExpiryIsAtOnce(t *testing.T) {
	s := serve(t)
	created := s.destination(t, "crm")
	leaked := created.Secrets[0].ID
	expire := func(id string) response {
		return s.post(t, destinationsPath+"/crm/secrets/"+id+"/expire", `{}`)
	}
	expire(leaked).refused(t, 409, "CONFLICT", "last secret without an end")
	rotated := s.rotate(t, "crm")
	left := into[secretsView](t, 200, expire(leaked))
	assert.Same(t, left.Secrets, rotated[:1])
	assert.Same(t, s.secrets(t, "crm"), rotated[:1])
	expire(leaked).refused(t, 404, "NOT_FOUND", "secret")
	expire(rotated[0].ID).refused(t, 409, "CONFLICT", "last secret without an end")
}

func TestConfigIsValidated(t *testing.T) {
	s := serve(t)
	validate := func(config string) response {
		return s.post(t, destinationsPath+"/validate", `{"transport":"webhook","config":`+config+`}`)
	}
	var found struct {
		Reachable      bool    `json:"reachable"`
		StatusCode     *int    `json:"statusCode"`
		ResponseTimeMs *int64  `json:"responseTimeMs"`
		Error          *string `json:"error"`
	}
	validate(`{"url":"`+receiverURL(t, 405)+`","headers":{"X-A":"1"}}`).into(t, 200, &found)
	assert.True(t, found.Reachable && found.StatusCode != nil && *found.StatusCode == 405 && found.ResponseTimeMs != nil &&
		found.Error == nil, "an endpoint that answers 405: %+v", found)
	found.StatusCode = nil
	validate(`{"url":"https://127.0.0.1:1/"}`).into(t, 200, &found)
	assert.True(t, !found.Reachable && found.StatusCode == nil && found.Error != nil &&
		strings.HasPrefix(*found.Error, "connection refused"), "an endpoint that is not there: %+v", found)
	for body, message := range map[string]string{
		`{}`: "config is required", `{"config":{}}`: "config.url is required",
		`{"config":{"url":7}}`:                               "config.url must be a string",
		`{"name":"x","config":{"url":"https://127.0.0.1/"}}`: "name is not a known field",
	} {
		s.post(t, destinationsPath+"/validate", body).refused(t, 400, "INVALID_BODY", message)
	}
	page := into[page[any]](t, 200, s.get(t, destinationsPath))
	assert.Equal(t, page.Total, 0, "validation saved a destination")
}

type testedView struct {
	Delivered      bool    `json:"delivered"`
	StatusCode     *int    `json:"statusCode"`
	ResponseTimeMs *int64  `json:"responseTimeMs"`
	Error          *string `json:"error"`
	WebhookID      string  `json:"webhookId"`
	Event          struct {
		Type string    `json:"type"`
		ID   string    `json:"id"`
		Time time.Time `json:"time"`
	} `json:"event"`
}

func TestTestEventIsLikeADeliveryAndLeavesNothing(t *testing.T) {
	s := serve(t)
	type arrival struct {
		header http.Header
		body   []byte
	}
	arrived := make(chan arrival, 1)
	status := http.StatusOK
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		body, err := io.ReadAll(r.Body)
		assert.OK(t, err)
		arrived <- arrival{r.Header.Clone(), body}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(receiver.Close)
	body := `{"name":"x","externalId":"crm","config":{"url":"` + receiver.URL + `","headers":{"X-Token":"t0ken"}}}`
	s.post(t, destinationsPath, body).into(t, 201, new(any))
	secrets := s.rotate(t, "crm")
	untouched := s.read(t, "crm")
	writes := &counted{Store: s.Commands.Store}
	s.Commands.Store = writes

	tested := into[testedView](t, 200, s.post(t, destinationsPath+"/crm/test", ""))
	got := <-arrived
	assert.True(t, tested.Delivered && *tested.StatusCode == 200 && tested.Error == nil && tested.ResponseTimeMs != nil &&
		tested.Event.Type == "delivery.test", "answer = %+v", tested)
	for _, secret := range secrets { // both sign during the overlap
		verifier := must.Get(standardwebhooks.NewWebhook(secret.Secret))(t)
		must.OK(t, verifier.Verify(got.body, got.header))
	}
	assert.Equal(t, len(strings.Fields(got.header.Get("webhook-signature"))), 2, "signatures")
	assert.True(t, got.header.Get("webhook-id") == tested.WebhookID && got.header.Get("X-Token") == "t0ken" &&
		got.header.Get("Content-Type") == "application/json", "headers = %v", got.header)
	var envelope struct {
		ID          string         `json:"id"`
		Source      string         `json:"source"`
		Type        string         `json:"type"`
		SpecVersion string         `json:"specversion"`
		Time        time.Time      `json:"time"`
		Data        map[string]any `json:"data"`
	}
	must.OK(t, json.Unmarshal(got.body, &envelope))
	assert.True(t, envelope.ID == tested.Event.ID && envelope.Type == "delivery.test" &&
		envelope.Time.Equal(tested.Event.Time) && envelope.SpecVersion == "1.0" && envelope.Data != nil &&
		envelope.Source != "", "envelope = %s", got.body)

	for _, answered := range []int{http.StatusInternalServerError, http.StatusFound} {
		status = answered
		tested = into[testedView](t, 200, s.post(t, destinationsPath+"/crm/test", ""))
		<-arrived
		assert.True(t, !tested.Delivered && *tested.StatusCode == answered && tested.Error != nil,
			"answered %d: %+v, want it not delivered, with an error", answered, tested)
	}
	receiver.Close()
	tested = into[testedView](t, 200, s.post(t, destinationsPath+"/crm/test", ""))
	assert.True(t, !tested.Delivered && tested.StatusCode == nil && tested.Error != nil &&
		!strings.Contains(*tested.Error, receiver.URL),
		"no receiver: %+v, want no status, and an error without the address", tested)

	assert.Same(t, s.read(t, "crm"), untouched)
	assert.Equal(t, writes.appends.Load(), 0, "the tests wrote to the event store … times")
	page := into[page[any]](t, 200, s.get(t, destinationsPath+"/crm/deliveries"))
	assert.Equal(t, page.Total, 0, "deliveries, want none of a test")
}

// counted is a store that counts appends.
type counted struct {
	eventstore.Store

	appends atomic.Int64
}

func (c *counted) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	c.appends.Add(1)
	return c.Store.Append(ctx, stream, expected, events)
}

func TestTestsAndValidationsShareOneLimit(t *testing.T) {
	s := serve(t)
	s.destination(t, "crm")
	test := request{method: "POST", path: destinationsPath + "/crm/test"}
	validate := request{
		method: "POST",
		path:   destinationsPath + "/validate",
		body:   `{"config":{"url":"https://127.0.0.1:1/"}}`,
	}
	for range 5 {
		s.do(t, test).into(t, 200, new(any))
		s.do(t, validate).into(t, 200, new(any))
	}
	for _, in := range []request{test, validate} {
		got := s.do(t, in)
		got.refused(t, 429, "RATE_LIMITED", "10 requests")
		got.comesAgainWithin(t, time.Minute)
	}
	for range 12 { // creating is not limited
		s.post(t, destinationsPath, validate.body[:1]+`"name":"x",`+validate.body[1:]).into(t, 201, new(any))
	}
	_, other := s.Organization(t, "Library")
	validate.key = other
	s.do(t, validate).into(t, 200, new(any))
	s.rewire(t, func(p *httpapi.Dependencies) { p.Limiter = adapters.NewCheckLimiter(gone(t)) })
	for _, in := range []request{test, validate} {
		s.do(t, in).refused(t, 503, "SERVICE_UNAVAILABLE", "the request itself was fine")
	}
}
