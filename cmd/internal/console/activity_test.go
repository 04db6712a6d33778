package console_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/eventstore"
)

// TestActivity: one page has a week's changes of all destinations of the own organization.
func TestActivity(t *testing.T) {
	t.Parallel()
	w := openAlone(t) // a clock ahead ends all sessions
	b := w.signIn(t, w.key)
	b.get(t, "/console/activity").expect(t, 200, "Nothing changed.")
	one, two := w.destination(t, "One <b>", receiver(t, 204, "")), w.destination(t, "Two", receiver(t, 204, ""))
	b.post(t, "/console/destinations/"+two.String()+"/disable")
	shown := b.get(t, "/console/activity").expect(t, 200, "One <b>", "Two", "disabled", "its first secret",
		"/console/destinations/"+one.String())
	if strings.Index(shown.body, "disabled") > strings.Index(shown.body, "its first secret") {
		t.Error("the latest change is not the first")
	}
	_, otherKey := w.Organization(t, "Library")
	w.signIn(t, otherKey).get(t, "/console/activity").expect(t, 200, "Nothing changed.")
	b.get(t, "/console/").expect(t, 200, `href="/console/activity"`)
	w.later.Store(int64(7*24*time.Hour + time.Minute))
	w.signIn(t, w.key).get(t, "/console/activity").expect(t, 200, "Nothing changed.")
}

// TestSignedCurl: the command carries signatures that receivers take; it is recorded, and only for those who may see
// secrets.
func TestSignedCurl(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.signIn(t, s.key)
	works := mustID(t, s.names["works"])
	path := "/console/deliveries/" + s.names["delivered"]
	b.get(t, path).expect(t, 200, path+`/curl"`, "data-copy")
	shown := b.post(t, path+"/curl").expect(t, 200, "webhook-signature: v1,", "data-copy")
	command := html.UnescapeString(regexp.MustCompile(`data-copy="([^"]+)"`).FindStringSubmatch(shown.body)[1])
	header := http.Header{}
	for _, line := range regexp.MustCompile(`-H '([^']+)'`).FindAllStringSubmatch(command, -1) {
		name, value, _ := strings.Cut(line[1], ": ")
		header.Set(name, value)
	}
	body := regexp.MustCompile(`(?s)--data-binary '(.*)'`).FindStringSubmatch(command)[1]
	found, err := s.Queries.Destination(t.Context(), s.org, works.String(), s.now())
	if err != nil {
		t.Fatal(err)
	}
	revealed := b.post(t, "/console/destinations/"+works.String()+"/secrets/"+found.Secrets[0].ID.String()+"/reveal")
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{40,}`).FindString(html.UnescapeString(revealed.body))
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify([]byte(body), header); err != nil {
		t.Errorf("%v: %s", err, command)
	}
	if s.lastDisclosure(t, works) == eventstore.Start {
		t.Error("it is not recorded")
	}
	writer := s.signIn(t, s.scoped(t, "read", "write"))
	if p := writer.get(t, path).expect(t, 200); strings.Contains(p.body, "/curl\"") {
		t.Error("a button that would be refused is shown")
	}
	writer.post(t, path+"/curl").expect(t, 403, "lacks the scope secrets")
	s.operator(t).post(t, "/console/organizations/"+s.org.String()+"/deliveries/"+s.names["delivered"]+"/curl").
		expect(t, 403, "for the people of the organization")
	_, otherKey := s.Organization(t, "Library")
	s.signIn(t, otherKey).post(t, path+"/curl").expect(t, 404, "Not found")
	b.send(t, http.MethodPost, path+"/curl", nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}).expect(t, 400)
}
