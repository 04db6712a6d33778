package adminapi_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

// TestLimitsSuspensionAndDeletion of an organization, through the routes.
func TestLimitsSuspensionAndDeletion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var org adminapi.Created
	s.do(t, "POST", "/admin/organizations", `{"name":"Town hall"}`).into(t, 201, &org)
	path := "/admin/organizations/" + org.ID.String()
	var first, set, back adminapi.Limits
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
		`{"feeds":-1}`: "feeds must be from 0 to 1000000000", `{"feeds":1000000001}`: "feeds must be from 0",
		`{"feeds":"7"}`: "feeds",
		`{"cakes":7}`:   "cakes is not a known field", `{"feeds":null}`: "feeds", `{"feeds":1.5}`: "feeds",
	} {
		s.do(t, "PUT", path+"/limits", body).refused(t, 400, "INVALID_BODY", message)
	}
	s.do(t, "PUT", path+"/limits", `{}`).into(t, 200, &back)
	if len(back.Set) != 0 {
		t.Errorf("taken back: %+v", back)
	}

	status := func() string {
		var list adminapi.List[query.Organization]
		s.do(t, "GET", "/admin/organizations", "").into(t, 200, &list)
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
