package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/command"
	"carillon/eventstore"
	"carillon/projections/destinations"
	"carillon/projections/subscriptions"
)

func TestChangesAtOnceAllSucceed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	url := receiverURL(t, 204)
	const n = 50
	got := s.concurrently(t, n, func(i int) request {
		body := fmt.Sprintf(`{"name":"CRM %d","config":{"url":%q}}`, i, url)
		return request{method: []string{"PUT", "PATCH"}[i%2], path: destinationsPath + "/crm", body: body}
	})
	if got[http.StatusOK] != n {
		t.Errorf("%v, want %d times 200", got, n)
	}
}

func TestRenamesAtOnceLeaveEachNameToOne(t *testing.T) {
	t.Parallel()
	s := serve(t)
	created := s.destination(t, "a")
	declared := `"eventTypes":["*"],"scopeKind":"all"`
	var subscribed struct {
		ID string `json:"id"`
	}
	s.do(t, request{
		method: "PUT",
		path:   destinationsPath + "/" + created.ID + "/subscriptions/a",
		body:   "{" + declared + "}",
	}).into(t, 201, &subscribed)
	for collection, tt := range map[string]struct{ id, more string }{
		destinationsPath: {created.ID, fmt.Sprintf(`"name":"other","config":{"url":%q}`, receiverURL(t, 204))},
		destinationsPath + "/" + created.ID + "/subscriptions": {subscribed.ID, declared},
	} {
		for range 5 {
			got := s.concurrently(t, 12, func(i int) request {
				return request{
					method: "PATCH",
					path:   collection + "/" + tt.id,
					body:   `{"externalId":"` + []string{"a", "b"}[i%2] + `"}`,
				}
			})
			if got[http.StatusOK] != 12 {
				t.Errorf("%v, want 12 times 200", got)
			}
			var now struct {
				ExternalID string `json:"externalId"`
			}
			s.do(t, request{path: collection + "/" + tt.id}).into(t, 200, &now)
			s.do(t, request{method: "POST", path: collection, body: `{"externalId":"` + now.ExternalID + `",` + tt.more + `}`}).
				refused(t, 409, "ALREADY_EXISTS", now.ExternalID)
		}
		got := s.concurrently(t, 24, func(i int) request {
			name := []string{"a", "b"}[i%2]
			if i%3 == 0 {
				return request{method: "PUT", path: collection + "/" + name, body: "{" + tt.more + "}"}
			}
			return request{method: "PATCH", path: collection + "/" + tt.id, body: `{"externalId":"` + name + `"}`}
		})
		if got[http.StatusOK]+got[http.StatusCreated]+got[http.StatusConflict] != 24 || got[http.StatusCreated] > 1 {
			t.Errorf("%v, want 200, 201 or 409 for all 24, and one more bearer at most", got)
		}
		for _, name := range []string{"a", "b"} {
			if got := s.do(t, request{path: collection + "/" + name}); got.status != http.StatusOK &&
				got.status != http.StatusNotFound {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
	}
}

// TestDeletedRightAfterChange deletes a destination between a write's append and its answer.
func TestDeletedRightAfterChange(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, body := range map[string]string{
		"": `{"name":"CRM 2"}`, "/subscriptions/all": `{"active":false}`,
		"/subscriptions/new": `{"eventTypes":["*"],"scopeKind":"all"}`,
	} {
		s.rewire(t, func(*httpapi.Dependencies) {})
		created := s.destination(t, "")
		s.do(t, request{
			method: "PUT",
			path:   destinationsPath + "/" + created.ID + "/subscriptions/all",
			body:   `{"eventTypes":["*"],"scopeKind":"all"}`,
		}).into(t, 201, new(any))
		s.rewire(t, func(p *httpapi.Dependencies) {
			p.Await = func(ctx context.Context, _ eventstore.Position, _ ...string) bool {
				deleted, err := s.Commands.DeleteDestination(ctx, command.Caller{Organization: s.org},
					command.DeleteDestination{ID: uuid.MustParse(created.ID)})
				return err == nil && s.Patient(ctx, deleted.Position, destinations.ReadModel.Name, subscriptions.ReadModel.Name)
			}
		})
		method := "PATCH"
		if path == "/subscriptions/new" {
			method = "PUT"
		}
		s.do(t, request{method: method, path: destinationsPath + "/" + created.ID + path, body: body}).refused(t, 404,
			"NOT_FOUND", "not found")
	}
}

func TestConcurrentCreatesWithOneName(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const n = 50
	body := destinationBody(t, `"externalId":"crm",`)
	got := s.concurrently(t, n, func(int) request { return request{method: "POST", path: destinationsPath, body: body} })
	if got[http.StatusCreated] != 1 || got[http.StatusConflict] != n-1 {
		t.Errorf("POST: %v, want one 201 and %d times 409", got, n-1)
	}
	bare := `{"name":"ERP","config":{"url":"` + receiverURL(t, 204) + `"}}`
	got = s.concurrently(t, n, func(int) request {
		return request{method: "PUT", path: destinationsPath + "/erp", body: bare}
	})
	if got[http.StatusCreated] != 1 || got[http.StatusOK] != n-1 {
		t.Errorf("PUT: %v, want one 201 and %d times 200", got, n-1)
	}
	got = s.concurrently(t, n, func(int) request {
		return request{
			method: "POST",
			path:   destinationsPath + "/crm/subscriptions",
			body:   `{"externalId":"all","eventTypes":["*"],"scopeKind":"all"}`,
		}
	})
	if got[http.StatusCreated] != 1 || got[http.StatusConflict] != n-1 {
		t.Errorf("POST subscription: %v, want one 201 and %d times 409", got, n-1)
	}
	var page pageTotal
	s.do(t, request{path: destinationsPath}).into(t, 200, &page)
	if page.Total != 2 {
		t.Errorf("%d destinations, want 2", page.Total)
	}
}

type pageTotal struct {
	Total int `json:"total"`
}

func TestNamesAreOfOneOrganization(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, other := s.Organization(t, "Library")
	s.destination(t, "crm")
	s.do(t, request{
		method: "POST",
		path:   destinationsPath,
		key:    other,
		body:   destinationBody(t, `"externalId":"crm",`),
	}).into(t, 201, new(any))
}
