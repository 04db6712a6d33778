package adminapi_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
)

func TestConsoleLink(t *testing.T) {
	t.Parallel()
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	var link adminapi.ConsoleLink
	s.do(t, "POST", "/admin/organizations/"+org.String()+"/console-link", `{"as":"ann","scopes":["read"]}`).
		into(t, 201, &link)
	token, found := strings.CutPrefix(link.URL, "/console/enter?token=")
	if !found || len(token) < 43 || time.Until(link.ExpiresAt) > 15*time.Minute {
		t.Errorf("%+v", link)
	}
	if strings.Contains(s.Logged.String(), token) {
		t.Error("the log has the token")
	}
	hash := sha256.Sum256([]byte(token))
	visitor, err := adapters.ConsoleSessions{Pool: s.Pool}.Open(t.Context(), hash[:], time.Now())
	if err != nil || visitor.Person != "ann (by operator)" {
		t.Errorf("the link is for %q, %v: want its maker beside the name", visitor.Person, err)
	}
	s.do(t, "POST", "/admin/organizations/"+uuid.NewString()+"/console-link", `{"as":"ann"}`).refused(t, 404, "NOT_FOUND",
		"organization not found")
	s.do(t, "POST", "/admin/organizations/x/console-link", `{"as":"ann"}`).refused(t, 400, "INVALID_PARAMS", "id")
	s.do(t, "POST", "/admin/organizations/"+org.String()+"/console-link", `{"a":1}`).refused(t, 400, "INVALID_BODY", "")
	for body, want := range map[string]string{
		`{}`:                             "as is required",
		`{"as":" "}`:                     "as must not be empty",
		`{"as":"a\nb"}`:                  "as must be plain text in one line",
		`{"as":"ann","scopes":["root"]}`: "scopes must be some of read, write and secrets",
	} {
		s.do(t, "POST", "/admin/organizations/"+org.String()+"/console-link", body).refused(t, 400, "INVALID_BODY", want)
	}
}
