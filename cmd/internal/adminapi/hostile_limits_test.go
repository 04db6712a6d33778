package adminapi_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/adminapi"
	"carillon/command"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/destinations"
	"carillon/query"
)

// TestLimitsSuspensionAndDeletion of an organization, through the routes.
func TestLimitsSuspensionAndDeletion(t *testing.T) {
	s := serve(t)
	org, path := s.organization(t)
	var first, set adminapi.Limits
	s.do(t, "GET", path+"/limits", "").into(t, 200, &first)
	assert.True(t, len(first.Limits) == len(organization.Definitions()) && len(first.Set) == 0 &&
		first.Limits["destinations"] == 10_000, "by default: %+v", first)
	s.do(t, "PUT", path+"/limits", `{"destinations":5,"requestsPerSecond":0}`).into(t, 200, new(adminapi.Limits))
	s.do(t, "PUT", path+"/limits", `{"feeds":7,"keys":1}`).into(t, 200, new(adminapi.Limits))
	s.do(t, "GET", path+"/limits", "").into(t, 200, &set)
	assert.True(t, maps.Equal(set.Set, map[string]int64{"feeds": 7, "keys": 1}) && set.Limits["destinations"] == 10_000 &&
		set.Limits["feeds"] == 7, "after it was replaced: %+v", set)
	for body, message := range map[string]string{
		`{"feeds":-1}`: "feeds must be from 0 to 1000000000", `{"cakes":7}`: "cakes is not a known field",
		`{"feeds":null}`: "feeds", `{"feeds":1000000001}`: "feeds must be from 0",
	} {
		s.do(t, "PUT", path+"/limits", body).refused(t, 400, "INVALID_BODY", message)
	}
	status := func() string {
		list := into[adminapi.List[query.Organization]](t, 200, s.do(t, "GET", "/admin/organizations", ""))
		for _, o := range list.Items {
			if o.ID == org {
				return o.Status
			}
		}
		return "none"
	}
	s.do(t, "POST", path+"/suspend", `{"reason":"`+strings.Repeat("x", 20_000)+`"}`).refused(t, 400, "INVALID_BODY",
		"reason must have at most")
	for range 2 { // the same again changes nothing
		s.do(t, "POST", path+"/suspend", `{"reason":"unpaid"}`).into(t, 200, new(any))
		assert.Equal(t, status(), "suspended", "after its suspension")
	}
	for range 2 {
		s.do(t, "POST", path+"/resume", "").into(t, 200, new(any))
		assert.Equal(t, status(), "registered", "after it was resumed")
	}
	for range 2 {
		s.do(t, "DELETE", path, "").into(t, 200, new(any))
		assert.Equal(t, status(), "none", "after its deletion")
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
	assert.True(t, list.status == http.StatusOK && strings.Contains(list.body, `"crm"`) &&
		!strings.Contains(list.body, "hunter2"), "its own: %d %s", list.status, list.body)
	for _, ref := range []string{"crm", made.ID.String()} {
		got := s.do(t, http.MethodGet, of(town)+"destinations/"+ref, "")
		assert.True(t, strings.Contains(got.body, `"crm"`), "%s: %d %s", ref, got.status, got.body)
		s.do(t, http.MethodGet, of(other)+"destinations/"+ref, "").refused(t, 404, "NOT_FOUND", "destination not found")
	}
	if got := s.do(t, http.MethodGet, of(other)+"destinations", ""); !strings.Contains(got.body, `"items":[]`) {
		t.Errorf("another one's: %d %s", got.status, got.body)
	}
	for _, path := range []string{"deliveries?status=failing", "events?limit=7"} {
		s.do(t, http.MethodGet, of(town)+path, "").into(t, 200, new(any))
	}
	missing := uuid.NewString()
	s.do(t, http.MethodPost, of(town)+"deliveries/"+missing+"/replay", "").refused(t, 404, "NOT_FOUND",
		"delivery not found")
	s.do(t, http.MethodGet, of(town)+"events/"+missing, "").refused(t, 404, "NOT_FOUND", "not found")
	s.do(t, http.MethodGet, of(town)+"deliveries?page=1", "").refused(t, 400, "INVALID_QUERY", "page")
	s.do(t, http.MethodGet, of(uuid.New())+"deliveries", "").refused(t, 404, "NOT_FOUND", "organization not found")
	s.do(t, http.MethodGet, "/admin/organizations/7/events/deliveries", "").refused(t, 400, "INVALID_PARAMS",
		"must be a UUID")
}

func bodyOf(t *testing.T, certificate, key string) string {
	t.Helper()
	body := must.Get(json.Marshal(map[string]string{"certificate": certificate, "privateKey": key}))(t)
	return string(body)
}

// TestClientCertificates are set, shown, replaced and removed under the names of operators.
func TestClientCertificates(t *testing.T) {
	s := serveAlone(t)
	org, path := s.organization(t)
	_, other := s.organization(t)
	ann := s.issue(t, "operators", `{"name":"carol"}`)
	path += "/client-certificate"
	authority := mtlstest.NewAuthority(t, "Receiver's")
	first, second := authority.Issue("first", nil), authority.Issue("second", nil)

	s.do(t, "GET", path, "").refused(t, 404, "NOT_FOUND", "client certificate not found")
	s.do(t, "DELETE", path, "").refused(t, 404, "NOT_FOUND", "the organization has none")
	var set, shown, replaced, again query.ClientCertificate
	s.as(t, ann.Token, "PUT", path, bodyOf(t, first.Chain, first.Key)).into(t, 201, &set)
	s.do(t, "GET", path, "").into(t, 200, &shown)
	assert.True(t, shown.SetBy == "operator:carol" && shown.Subject == "CN=first" && shown.Issuer == "CN=Receiver's" &&
		shown.Chain == first.Chain && shown.DaysLeft == 89 && shown.NotAfter.Equal(first.Leaf.NotAfter) &&
		len(shown.Fingerprint) == 64, "shown: %+v", shown)
	if shown.SetBy = ""; set != shown {
		t.Errorf("set: %+v", set)
	}
	s.do(t, "PUT", path, bodyOf(t, first.Chain, first.Key)).into(t, 200, &again) // the same again
	assert.Equal(t, again, set, "again")
	s.later.Store(int64(100 * 24 * time.Hour))
	if s.do(t, "GET", path, "").into(t, 200, &shown); shown.DaysLeft != -11 {
		t.Errorf("expired: %d days left", shown.DaysLeft)
	}
	s.later.Store(0)
	if s.do(t, "PUT", path, bodyOf(t, second.Chain, second.Key)).into(t, 200, &replaced); replaced.Subject != "CN=second" {
		t.Errorf("replaced: %+v", replaced)
	}
	s.do(t, "GET", other+"/client-certificate", "").refused(t, 404, "NOT_FOUND", "client certificate")
	s.as(t, ann.Token, "DELETE", path, "").into(t, 200, new(any))
	s.do(t, "GET", path, "").refused(t, 404, "NOT_FOUND", "client certificate")
	stream := clientcertificate.Aggregate.Stream(org)
	assert.Slices(t, s.actors(t, stream), []string{"operator:carol", "operator", "operator:carol"}, "on record")
	assert.Equal(t, s.Keys.Len(), 0, "data keys are left")
	s.do(t, "DELETE", other, "").into(t, 200, new(any))
	s.do(t, "PUT", other+"/client-certificate", bodyOf(t, first.Chain, first.Key)).refused(t, 404, "NOT_FOUND",
		"does not exist")
}

// TestHostileClientCertificates: an unusable certificate is refused by the name of its field, and no answer, error or
// line of the log has anything of a private key, whatever is wrong with the request.
func TestHostileClientCertificates(t *testing.T) {
	s := serve(t)
	_, path := s.organization(t)
	path += "/client-certificate"
	authority := mtlstest.NewAuthority(t, "Receiver's")
	good, other := authority.Issue("good", nil), authority.Issue("other", nil)
	expired := authority.Issue("expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	for name, tt := range map[string]struct{ body, message string }{
		"no certificate": {`{"privateKey":"x"}`, "certificate is required"},
		"no key":         {`{"certificate":"x"}`, "privateKey is required"},
		"an unknown field": {`{"certificate":"x","privateKey":"x","passphrase":"hunter2"}`,
			"passphrase is not a known field"},
		"a number":              {`{"certificate":1,"privateKey":"x"}`, "certificate"},
		"null":                  {`{"certificate":null,"privateKey":"x"}`, "certificate"},
		"no PEM":                {bodyOf(t, "x", good.Key), "certificate is not PEM"},
		"another key":           {bodyOf(t, good.Chain, other.Key), "privateKey is not the key of this certificate"},
		"exchanged":             {bodyOf(t, good.Key, good.Chain), "certificate holds a private key"},
		"expired":               {bodyOf(t, expired.Chain, expired.Key), "certificate has expired"},
		"a key that is cut off": {bodyOf(t, good.Chain, good.Key[:len(good.Key)/2]), "privateKey is not PEM"},
		"too large":             {bodyOf(t, strings.Repeat("x", 40_000), good.Key), "certificate has 40000 bytes"},
		"PEM for JSON":          {strings.ReplaceAll(good.Key, "\n", " "), "body"},
		"half a body":           {bodyOf(t, good.Chain, good.Key)[:1300], ""},
		"twice": {strings.Replace(bodyOf(t, good.Chain, good.Key), "{", `{"privateKey":"x",`, 1),
			"privateKey"},
	} {
		got := s.do(t, "PUT", path, tt.body)
		got.refused(t, 400, "INVALID_BODY", tt.message)
		s.tellsNothing(t, name, got, good, other, expired)
	}
	huge := s.do(t, "PUT", path, bodyOf(t, good.Chain, good.Key+strings.Repeat(" ", 300_000)))
	huge.refused(t, 413, "INVALID_BODY", "over the limit")
	s.tellsNothing(t, "huge", huge, good)
	inPath := s.do(t, "GET", "/admin/organizations/none/client-certificate", "")
	inPath.refused(t, 400, "INVALID_PARAMS", "id")
	s.tellsNothing(t, "as text", s.as(t, token, "PUT", path, bodyOf(t, good.Chain, good.Key), "Content-Type",
		"text/plain"),
		good)
	s.tellsNothing(t, "set", s.do(t, "PUT", path, bodyOf(t, good.Chain, good.Key)), good)
	s.tellsNothing(t, "shown", s.do(t, "GET", path, ""), good)
}

// tellsNothing expects that neither an answer nor the log has a part of a private key.
func (s *server) tellsNothing(t *testing.T, when string, got response, pairs ...mtlstest.Pair) {
	t.Helper()
	for _, pair := range pairs {
		for what, part := range partsOf(pair) {
			assert.True(t, !strings.Contains(got.body+fmt.Sprint(got.header), part) &&
				!strings.Contains(s.Logged.String(), part), "%s: %s of the private key is shown", when, what)
		}
	}
}

// partsOf are pieces of a private key by which it would be found.
func partsOf(pair mtlstest.Pair) map[string]string {
	block, _ := pem.Decode([]byte(pair.Key))
	text := base64.StdEncoding.EncodeToString(block.Bytes)
	return map[string]string{
		"a line": strings.Split(pair.Key, "\n")[1][30:60], "the whole": text, "bytes": string(block.Bytes[40:60]),
		"hexadecimal": fmt.Sprintf("%x", block.Bytes[40:60]),
	}
}
