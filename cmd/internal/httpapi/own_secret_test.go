package httpapi_test

import (
	"slices"
	"strings"
	"testing"
)

const ownSecret = "whsec_b3duIHNlY3JldCBvZiBhIHJlY2VpdmVyLCAzMiBieXRlcw=="

// A receiver that moves here verifies by the secret it has; the destination can begin disabled.
func TestDestinationWithOwnSecret(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var created destinationView
	s.do(t, request{
		method: "POST",
		path:   "/events/destinations",
		body:   destinationBody(t, `"externalId":"moved","secret":"`+ownSecret+`","enabled":false,`),
	}).into(t, 201, &created)
	if created.Status != "disabled" || len(created.Secrets) != 1 || created.Secrets[0].Secret != ownSecret {
		t.Errorf("created %+v, want it disabled, with the secret that was sent", created)
	}
	want := []string{"destination.created.v2", "destination.secret-minted.v1", "destination.disabled.v1"}
	if got := s.EventTypes(t, "destination-"+created.ID); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
	var read destinationView
	s.do(t, request{path: "/events/destinations/moved"}).into(t, 200, &read)
	if read.Status != "disabled" || read.Secrets[0].Secret == ownSecret {
		t.Errorf("read %+v, want it disabled, its secret masked", read)
	}
	for _, method := range []string{"PUT", "PATCH"} {
		s.do(t, request{
			method: method,
			path:   "/events/destinations/moved",
			body:   destinationBody(t, `"secret":"`+ownSecret+`",`),
		}).
			refused(t, 400, "INVALID_BODY", "secret")
	}
}

func TestDestinationRefusesOwnSecret(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, secret := range map[string]string{
		"empty":        ``,
		"no prefix":    `b3duIHNlY3JldCBvZiBhIHJlY2VpdmVyLCAzMiBieXRlcw==`,
		"not base64":   `whsec_*not base64, but long enough to be a secret*`,
		"too short":    `whsec_dG9vIHNob3J0`,
		"over 64 byte": `whsec_` + strings.Repeat("QUFB", 22),
	} {
		t.Run(name, func(t *testing.T) {
			s.do(t, request{method: "POST", path: "/events/destinations", body: destinationBody(t, `"secret":"`+secret+`",`)}).
				refused(t, 400, "INVALID_BODY", "secret must be whsec_")
		})
	}
}
