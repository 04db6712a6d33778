package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/eventstore"
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
	if got := s.secrets(t, "crm"); len(got) != 1 || got[0].Secret != created.Secrets[0].Secret ||
		got[0].ID != created.Secrets[0].ID {
		t.Errorf("secrets = %+v, want the one of the create answer in full", got)
	}
	before := time.Now()
	rotated := s.rotate(t, "crm")
	if diff := cmp.Diff(rotated, s.secrets(t, created.ID)); diff != "" {
		t.Errorf("the answer and a later read differ:\n%s", diff)
	}
	if len(rotated) != 2 || rotated[0].ExpiresAt != nil || rotated[0].Secret == rotated[1].Secret ||
		len(rotated[0].Secret) != len("whsec_")+44 {
		t.Fatalf("after a rotation: %+v, want the new one first, in full, never expiring", rotated)
	}
	first := rotated[1]
	if first.ID != created.Secrets[0].ID || first.ExpiresAt == nil ||
		first.ExpiresAt.Before(before.Add(24*time.Hour-time.Second)) || first.ExpiresAt.After(time.Now().Add(24*time.Hour)) {
		t.Errorf("the old one: %+v, want it to expire in 24 hours", first)
	}
	again := s.rotate(t, "crm")
	if len(again) != 3 || again[0].ExpiresAt != nil || again[1].ExpiresAt == nil ||
		!again[2].ExpiresAt.Equal(*first.ExpiresAt) {
		t.Errorf("after another rotation: %+v, want the first to keep the end of its overlap", again)
	}
	found := s.read(t, "crm")
	for i, secret := range found.Secrets {
		if secret.ID != again[i].ID || !strings.HasPrefix(secret.Secret, "whsec_…") ||
			!strings.HasSuffix(again[i].Secret, strings.TrimPrefix(secret.Secret, "whsec_…")) {
			t.Errorf("masked secret %d = %+v", i, secret)
		}
	}
	s.wrote(t, "destination-"+created.ID, "destination.created.v2", "destination.secret-minted.v1",
		"destination.secret-rotated.v1",
		"destination.secret-rotated.v1")
	log, stored := s.logged(t), s.stored(t, "destination-"+created.ID)
	for _, secret := range again {
		if strings.Contains(log, secret.Secret[6:]) || strings.Contains(stored, secret.Secret[6:]) ||
			strings.Contains(stored, "t0ken") {
			t.Error("a secret or a header's value is in the log or in an event in the clear")
		}
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
		if len(rotated) != 2 || rotated[0].ExpiresAt != nil || rotated[1].ID != known || rotated[1].ExpiresAt == nil {
			t.Fatalf("after a rotation: %+v, want the new one and %s, which expires", rotated, known)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		all.Write(recorded.Data)
		all.Write(recorded.Metadata)
	}
	return all.String()
}

func TestTenSecretsAtMost(t *testing.T) {
	s := serve(t)
	created := s.destination(t, "crm")
	for range 9 {
		s.rotate(t, "crm")
	}
	s.post(t, destinationsPath+"/crm/secrets/rotate", "").refused(t, 409, "CONFLICT", "10 secrets are active")
	oldest := created.Secrets[0].ID
	s.post(t, destinationsPath+"/crm/secrets/"+oldest+"/expire", "").into(t, 200, new(any))
	if got := s.rotate(t, "crm"); len(got) != 10 {
		t.Errorf("%d secrets, want 10", len(got))
	}
}

func TestExpiryIsAtOnce(t *testing.T) {
	s := serve(t)
	created := s.destination(t, "crm")
	leaked := created.Secrets[0].ID
	expire := func(ref, id string) response {
		return s.post(t, destinationsPath+"/"+ref+"/secrets/"+id+"/expire", `{}`)
	}
	expire("crm", leaked).refused(t, 409, "CONFLICT", "last secret without an end")
	rotated := s.rotate(t, "crm")
	left := into[secretsView](t, 200, expire("crm", leaked))
	if diff := cmp.Diff(rotated[:1], left.Secrets); diff != "" {
		t.Errorf("still active (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rotated[:1], s.secrets(t, "crm")); diff != "" {
		t.Errorf("read afterwards (-want +got):\n%s", diff)
	}
	expire("crm", leaked).refused(t, 404, "NOT_FOUND", "secret")
	expire("crm", uuid.NewString()).refused(t, 404, "NOT_FOUND", "secret")
	other := s.destination(t, "erp")
	s.rotate(t, "erp")
	expire("crm", other.Secrets[0].ID).refused(t, 404, "NOT_FOUND", "secret")
	expire("crm", rotated[0].ID).refused(t, 409, "CONFLICT", "last secret without an end")
	overlapping := s.rotate(t, "crm")
	// although the other signs, too
	expire("crm", overlapping[0].ID).refused(t, 409, "CONFLICT", "last secret without an end")
	if diff := cmp.Diff(overlapping, s.secrets(t, "crm")); diff != "" {
		t.Errorf("after the refusal (-want +got):\n%s", diff)
	}
}
