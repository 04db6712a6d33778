package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command"
	"carillon/projections/destinations"
)

// An operator sees what an organization sees of its destinations, deliveries and events, and nothing of another one.
func TestOnBehalf_oneOrganization(t *testing.T) {
	t.Parallel()
	s := serve(t)
	town, _ := s.Organization(t, "Town hall")
	other, _ := s.Organization(t, "Reader")
	by := command.Caller{Organization: town, Actor: "key:1"}
	made, err := s.Commands.CreateDestination(t.Context(), by, command.CreateDestination{
		DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{ExternalID: "crm", Name: "CRM", URL: "https://127.0.0.1:1/"},
			Headers:  map[string]string{"X-Token": "hunter2"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, made.Position, destinations.ReadModel.Name)
	of := func(organization uuid.UUID) string {
		return "/admin/organizations/" + organization.String() + "/events/"
	}
	list := s.do(t, http.MethodGet, of(town)+"destinations", "")
	if list.status != http.StatusOK || !strings.Contains(list.body, `"crm"`) || strings.Contains(list.body, "hunter2") {
		t.Errorf("its own: %d %s", list.status, list.body)
	}
	for _, ref := range []string{"crm", made.ID.String()} {
		if got := s.do(t, http.MethodGet, of(town)+"destinations/"+ref, ""); !strings.Contains(got.body, `"crm"`) {
			t.Errorf("%s: %d %s", ref, got.status, got.body)
		}
		s.do(t, http.MethodGet, of(other)+"destinations/"+ref, "").refused(t, 404, "NOT_FOUND", "destination not found")
	}
	if got := s.do(t, http.MethodGet, of(other)+"destinations", ""); !strings.Contains(got.body, `"items":[]`) {
		t.Errorf("another one's: %d %s", got.status, got.body)
	}
	for _, path := range []string{"deliveries?status=failing", "events?limit=7"} {
		if got := s.do(t, http.MethodGet, of(town)+path, ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	missing := uuid.NewString()
	replayed := s.do(t, http.MethodPost, of(town)+"deliveries/"+missing+"/replay", "")
	replayed.refused(t, 404, "NOT_FOUND", "delivery not found")
	s.do(t, http.MethodGet, of(town)+"events/"+missing, "").refused(t, 404, "NOT_FOUND", "not found")
	s.do(t, http.MethodGet, of(town)+"deliveries?page=1", "").refused(t, 400, "INVALID_QUERY", "page")
	s.do(t, http.MethodGet, of(uuid.New())+"deliveries", "").refused(t, 404, "NOT_FOUND", "organization not found")
	got := s.do(t, http.MethodGet, "/admin/organizations/7/events/deliveries", "")
	got.refused(t, 400, "INVALID_PARAMS", "must be a UUID")
}
