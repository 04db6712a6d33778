package adminapi_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/adminapi"
	"carillon/command"
	"carillon/eventstore/storetest/must"
	"carillon/projections/destinations"
	"carillon/query"
)

// TestLimitsSuspensionAndDeletion of an organization, through the routes.
func TestLimitsSuspensionAndDeletion(t *testing.T) {
	s := serve(t)
	org := into[adminapi.Created](t, 201, s.do(t, "POST", "/admin/organizations", `{"name":"Town hall"}`))
	path := "/admin/organizations/" + org.ID.String()
	var first, set adminapi.Limits
	s.do(t, "GET", path+"/limits", "").into(t, 200, &first)
	if len(first.Limits) != len(organization.Definitions()) || len(first.Set) != 0 ||
		first.Limits["destinations"] != 10_000 {
		t.Errorf("by default: %+v", first)
	}
	s.do(t, "PUT", path+"/limits", `{"destinations":5,"requestsPerSecond":0}`).into(t, 200, new(adminapi.Limits))
	s.do(t, "PUT", path+"/limits", `{"feeds":7,"keys":1}`).into(t, 200, new(adminapi.Limits))
	s.do(t, "GET", path+"/limits", "").into(t, 200, &set)
	if !maps.Equal(set.Set, map[string]int64{"feeds": 7, "keys": 1}) || set.Limits["destinations"] != 10_000 ||
		set.Limits["feeds"] != 7 {
		t.Errorf("after it was replaced: %+v", set)
	}
	for body, message := range map[string]string{
		`{"feeds":-1}`: "feeds must be from 0 to 1000000000", `{"cakes":7}`: "cakes is not a known field",
		`{"feeds":null}`: "feeds", `{"feeds":1000000001}`: "feeds must be from 0",
	} {
		s.do(t, "PUT", path+"/limits", body).refused(t, 400, "INVALID_BODY", message)
	}
	status := func() string {
		list := into[adminapi.List[query.Organization]](t, 200, s.do(t, "GET", "/admin/organizations", ""))
		for _, o := range list.Items {
			if o.ID == org.ID {
				return o.Status
			}
		}
		return "none"
	}
	s.do(t, "POST", path+"/suspend", `{"reason":"`+strings.Repeat("x", 20_000)+`"}`).refused(t, 400, "INVALID_BODY",
		"reason must have at most")
	for range 2 { // the same again changes nothing
		s.do(t, "POST", path+"/suspend", `{"reason":"unpaid"}`).into(t, 200, new(any))
		if got := status(); got != "suspended" {
			t.Errorf("after its suspension it is %s", got)
		}
	}
	for range 2 {
		s.do(t, "POST", path+"/resume", "").into(t, 200, new(any))
		if got := status(); got != "registered" {
			t.Errorf("after it was resumed it is %s", got)
		}
	}
	for range 2 {
		s.do(t, "DELETE", path, "").into(t, 200, new(any))
		if got := status(); got != "none" {
			t.Errorf("after its deletion it is %s", got)
		}
	}
	for _, of := range []string{path, "/admin/organizations/" + uuid.NewString()} {
		s.do(t, "GET", of+"/limits", "").refused(t, 404, "NOT_FOUND", "organization not found")
		s.do(t, "PUT", of+"/limits", `{"feeds":1}`).refused(t, 404, "NOT_FOUND", "organization not found")
		s.do(t, "POST", of+"/suspend", `{}`).refused(t, 404, "NOT_FOUND", "organization not found")
		s.do(t, "POST", of+"/resume", "").refused(t, 404, "NOT_FOUND", "organization not found")
	}
	s.do(t, "DELETE", "/admin/organizations/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND", "organization not found")
	s.do(t, "GET", "/admin/organizations/0d00/limits", "").refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
}

// An operator sees what an organization sees of its destinations, deliveries and events, and nothing of another one.
func TestOnBehalf_oneOrganization(t *testing.T) {
	s := serve(t)
	town, _ := s.Organization(t, "Town hall")
	other, _ := s.Organization(t, "Reader")
	by := command.Caller{Organization: town, Actor: "key:1"}
	made := must.Get(s.Commands.CreateDestination(t.Context(), by, command.CreateDestination{
		DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{ExternalID: "crm", Name: "CRM", URL: "https://127.0.0.1:1/"},
			Headers:  map[string]string{"X-Token": "hunter2"},
		},
	}))(t)
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
