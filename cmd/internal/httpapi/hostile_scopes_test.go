package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
)

// scoped makes a key of the server's organization.
func (s *server) scoped(t *testing.T, scopes ...organization.Scope) (key, id string) {
	t.Helper()
	key = s.IssueKey(t, s.org, nil, scopes...)
	return key, strings.Split(key, "_")[1]
}

// neededFor is which scopes a route needs: reading needs read, and all else write, but for what stands here.
var neededFor = map[string][]organization.Scope{
	"GET /events/destinations/{ref}/secrets": {"read", "secrets"},
	"GET /events/destinations/{ref}/listen":  {"write"},
	"GET /docs":                              nil, // needs no key
	"GET /docs/*":                            nil,
	"GET /healthz":                           nil,
	"GET /openapi.json":                      nil,
}

// Keys with each set of scopes against each route: missing scopes are named, before the body is read.
func TestHostileScopesOnEveryRoute(t *testing.T) {
	s := serve(t)
	sets := [][]organization.Scope{{"read"}, {"write"}, {"secrets"}, {"read", "write"}, {"read", "secrets"},
		{"write", "secrets"}, organization.AllScopes()}
	keys := make([]string, len(sets))
	for i, scopes := range sets {
		keys[i], _ = s.scoped(t, scopes...)
	}
	err := chi.Walk(s.api.Routes(),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			needed, exceptional := neededFor[method+" "+route]
			switch {
			case exceptional && needed == nil:
				return nil
			case !exceptional && method == http.MethodGet:
				needed = []organization.Scope{"read"}
			case !exceptional:
				needed = []organization.Scope{"write"}
			}
			for i, scopes := range sets {
				in := fill(request{method: method, path: route, key: keys[i]})
				if method != http.MethodGet {
					in.body = `{` // nothing is done
				}
				got := s.do(t, in)
				lacks := slices.IndexFunc(needed, func(scope organization.Scope) bool { return !slices.Contains(scopes, scope) })
				switch named := strings.Contains(got.body, "has not the scope"); {
				case lacks < 0 && (named || got.status == 401 || got.status == 403):
					t.Errorf("%s %s with %v: %d %s", method, route, scopes, got.status, got.body)
				case lacks >= 0 && strings.HasPrefix(route, "/events"):
					got.refused(t, 401, "AUTHENTICATION_FAILED", "has not the scope "+string(needed[lacks]))
				case lacks >= 0:
					got.refused(t, 403, "FORBIDDEN", "has not the scope "+string(needed[lacks]))
				}
			}
			return nil
		})
	must.OK(t, err)
}

// Masked texts are not accepted as values.
func TestHostileSecretsWithoutTheScope(t *testing.T) {
	s := serve(t)
	weak, _ := s.scoped(t, "read", "write")
	const body = `{"name":"CRM","config":{"url":"https://127.0.0.1:1/","headers":{"X-Token":"hunter2"}}}`
	path := destinationsPath + "/crm"
	for _, answer := range []response{s.as(weak).put(t, path, body), s.as(weak).post(t, path+"/secrets/rotate", "")} {
		assert.True(t, answer.status < 300 && strings.Contains(answer.body, "whsec_…") &&
			!strings.Contains(answer.body, "hunter2"), "%d %s", answer.status, answer.body)
	}
	masked := strings.Replace(body, "hunter2", "…", 1)
	s.as(weak).put(t, path, masked).refused(t, 400, "INVALID_BODY", "config.headers has the mask")
	s.patch(t, path, `{"config":{"headers":{"X-Token":"…"}}}`).refused(t, 400,
		"INVALID_BODY", "config.headers has the mask")
	got := s.get(t, path)
	assert.True(t, strings.Contains(got.body, "hunter2"), "the header is lost: %s", got.body)
}

// keyListed is one of GET /keys.
type keyListed struct {
	ID          string     `json:"id"`
	Scopes      []string   `json:"scopes"`
	LastUsedAt  *time.Time `json:"lastUsedAt"`
	SuccessorOf *string    `json:"successorOf"`
}

// An operator rotates keys, and both nodes honour the new one and the end of the old one. Keys themselves have no route
// for it.
func TestKeysAreRotatedOnTwoNodes(t *testing.T) {
	s := serve(t)
	var later atomic.Int64
	uses := &adapters.CredentialUses{Pool: s.Pool, Log: s.Log}
	ahead := func(p *httpapi.Dependencies) {
		p.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		p.Uses = uses
	}
	other := *s
	s.rewire(t, ahead)
	other.rewire(t, ahead)
	nodes := []*server{s, &other}
	valid := func(key string, want bool) {
		t.Helper()
		for i, node := range nodes {
			if got := node.as(key).get(t, "/events/types"); (got.status == 200) != want {
				t.Errorf("node %d: %d, valid: %v", i, got.status, want)
			}
		}
	}
	old, id := s.scoped(t, "read", "write")
	valid(old, true)
	rotate := func(of string, overlap time.Duration) (id, key string) {
		t.Helper()
		made := must.Get(s.Commands.RotateKey(t.Context(), apitest.Operator, command.RotateKey{
			Organization: s.org,
			KeyID:        of,
			Overlap:      overlap,
		}))(t)
		s.Await(t, made.Position, organizations.ReadModel.Name)
		return made.Value.ID, made.Value.Reveal()
	}
	made, madeKey := rotate(id, time.Hour)
	valid(old, true)
	valid(madeKey, true)
	must.OK(t, uses.Flush(t.Context()))
	list := into[[]keyListed](t, 200, s.as(madeKey).get(t, "/keys"))
	at := slices.IndexFunc(list, func(k keyListed) bool { return k.ID == made })
	assert.True(t, len(list) == 3 && at >= 0 && list[at].SuccessorOf != nil && *list[at].SuccessorOf == id &&
		slices.Equal(list[at].Scopes, []string{"read", "write"}) && list[at].LastUsedAt != nil &&
		list[at].LastUsedAt.Minute() == 0, "keys: %+v", list)

	_, lastKey := rotate(made, 0)
	later.Store(int64(time.Second)) // within which every node knows
	valid(madeKey, false)
	valid(old, true)
	later.Store(int64(61 * time.Minute)) // clocks go forward
	valid(old, false)
	valid(lastKey, true)
	assert.True(t, !strings.Contains(s.logged(t), lastKey[12:]), "the log shows the key")
	if got := s.get(t, "/keys"); got.status != 200 || strings.Contains(got.body, `"id":"`+made) {
		t.Errorf("a key that ended is listed: %s", got.body)
	}
	_, theirs := s.Organization(t, "Library")
	s.as(theirs).get(t, "/keys").into(t, 200, &list)
	assert.Equal(t, len(list), 1, "others see %+v", list)
}

// A key that can't read header values can't have them sent to another receiver either.
func TestHostileHeadersToAnotherHost(t *testing.T) {
	s := serve(t)
	weak, _ := s.scoped(t, "write")
	path := destinationsPath + "/crm"
	s.put(t, path, `{"name":"CRM","config":{"url":"https://127.0.0.1:1/","headers":{"X-Token":"hunter2"}}}`)
	const moved = `{"config":{"url":"https://127.0.0.1:2/"}}`
	s.as(weak).patch(t, path, moved).refused(t, 400, "VALIDATION_FAILED", "config.headers")
	s.patch(t, path, moved).into(t, 200, new(any))
}
