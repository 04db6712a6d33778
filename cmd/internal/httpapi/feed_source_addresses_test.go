package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/sources"
)

// TestAttachSourceByURL attaches the source there is, or a registered one where the operator allows it, within a limit
// that counts both alike.
func TestAttachSourceByURL(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	_, path := s.eventFeed(t)
	address := "https://example.org/" + uuid.NewString()
	known, err := s.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
		Type:     "site",
		URL:      address,
		Timezone: "Europe/Rome",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, known.Position, sources.ReadModel.Name)
	attach := func(key, more string) response {
		return s.do(t, request{
			method: "POST",
			path:   path + "/sources",
			key:    key,
			body:   fmt.Sprintf(`{"sourceType":"site","url":"%s%s"}`, address, more),
		})
	}
	var made struct {
		SourceID uuid.UUID `json:"sourceId"`
	}
	attach("", "").into(t, 201, &made)
	if made.SourceID != known.ID {
		t.Errorf("attached %s, want %s, which has the address", made.SourceID, known.ID)
	}
	attach("", `","timezone":"Europe/Oslo`).refused(t, 404, "NOT_FOUND", "ask your operator")
	attach("", "?own").refused(t, 404, "NOT_FOUND", "ask your operator")

	s.Commands.OrganizationSources = true
	s.limit(t, organization.Limits{organization.LimitSourceAddressesPerDay: 2})
	_, stranger := s.Organization(t, "Stranger")
	attach(stranger, "?own").refused(t, 404, "NOT_FOUND", "feed not found")
	attach("", "?own").into(t, 201, &made)
	attach("", "").into(t, 201, &made)
	attach("", "?second").refused(t, 429, "RATE_LIMITED", "limit sourceAddressesPerDay")
	attach("", "").refused(t, 429, "RATE_LIMITED", "limit sourceAddressesPerDay")
	head, err := s.Store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, head, sources.ReadModel.Name)
	count := 0
	if err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM sources.sources").Scan(&count); err != nil || count != 2 {
		t.Errorf("%d sources, %v; want the operator's and one of the organization", count, err)
	}
}
