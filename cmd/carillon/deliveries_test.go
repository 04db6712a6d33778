package main

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/httpapi"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// asked runs a command of the API that must succeed, and returns its output.
func (s shell) asked(args ...string) string {
	s.Helper()
	code, out, errors := runIn(s.Context(), "", append(args, s.api()...)...)
	must.True(s, code == 0 && errors == "", "carillon %v: exit %d\n%s%s", args, code, out, errors)
	return out
}

// has expects texts in an output.
func (s shell) has(out string, texts ...string) {
	s.Helper()
	for _, text := range texts {
		assert.True(s, strings.Contains(out, text), "%q is not in\n%s", text, out)
	}
}

// An organization looks for its destination, its event and its delivery, and sends that again.
func TestEventsAndDeliveriesAreShown(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := s.listen("--types", "research.*")
	subject := uuid.NewString()
	s.ok("trigger", "research.status.changed", "--subject", subject)
	heard := l.next(subject)
	must.True(t, heard.Verified, "heard %+v", heard)
	s.has(s.asked("destinations"), "EXTERNAL ID", "enabled")
	must.Eventually(t, "the event is listed", func() bool {
		return strings.Contains(s.asked("events", "--subject", subject), subject)
	})
	var events httpapi.Stretch[query.PublishedEvent]
	must.OK(t, json.Unmarshal([]byte(s.asked("events", "--subject", subject, "--json")), &events))
	must.True(t, len(events.Items) == 1 && *events.Items[0].Subject == subject, "events = %+v", events)
	event := events.Items[0].ID.String()
	s.has(s.asked("events", "--subject", subject), "SUBJECT", event)
	own := func(flags ...string) []string { // listeners of other tests may get the event, too
		return append([]string{"deliveries", "--event", event, "--destination", l.id}, flags...)
	}
	must.Eventually(t, "the delivery has succeeded", func() bool {
		return strings.Contains(s.asked(own("--status", "succeeded")...), subject)
	})
	var deliveries httpapi.Stretch[query.Delivery]
	must.OK(t, json.Unmarshal([]byte(s.asked(own("--json")...)), &deliveries))
	delivery := heard.ID
	must.True(t, len(deliveries.Items) == 1 && deliveries.Items[0].ID.String() == delivery,
		"deliveries = %+v, want %s", deliveries, delivery)
	s.has(s.asked("destination", "show", l.id), "url", "consecutive failures")
	s.has(s.asked("events", "show", event), "DESTINATION", delivery, "succeeded", "sequence")
	s.has(s.asked("delivery", "show", delivery), "✓ 1", " ms", subject)
	s.has(s.asked("delivery", "replay", delivery), "sending "+delivery+" again")
	s.has(s.asked("destination", "enable", l.id), "enabled", "carillon destinations recover "+l.id)
	s.has(s.asked("destination", "recover", l.id, "--since", "7d", "--dry-run"), "nothing was sent", "failed deliveries")
	assert.Equal(t, l.next(subject).ID, heard.ID, "came again")
	must.Eventually(t, "the replay is shown", func() bool {
		return strings.Contains(s.asked("delivery", "show", delivery), "✓ 2")
	})
	if out := s.asked(own("--failing")...); strings.Contains(out, subject) {
		t.Errorf("among the failing: %s", out)
	}
	for text, args := range map[string][]string{
		"destination not found": {"deliveries", "--destination", "unknown"},
		"type must be":          {"events", "--type", "*x"},
		"delivery not found":    {"delivery", "replay", uuid.NewString()},
		"event not found":       {"events", "show", uuid.NewString()},
	} {
		fails(t, 1, text, append(args, s.api()...)...)
	}
}

// An operator asks with the admin token, and an organization with its key.
func TestOperatorsLookForDeliveries(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := s.listen("--types", "research.*", "--status", "500")
	subject := uuid.NewString()
	s.ok("trigger", "research.status.changed", "--subject", subject)
	l.next(subject) // and is refused
	asOperator := append([]string{"--org", app.DevelopmentOrganization.String()}, s.server...)
	for _, as := range [][]string{asOperator, s.api()} {
		must.Eventually(t, "it is among the failing", func() bool {
			return strings.Contains(prints(t, "", append([]string{"deliveries", "--failing"}, as...)...), subject)
		})
	}
	for _, args := range [][]string{{"destinations"}, {"events", "--subject", subject}, {"deliveries"}} {
		prints(t, "ID", append(args, asOperator...)...)
	}
	fails(t, 1, "organization not found", append([]string{"deliveries", "--org", uuid.NewString()}, s.server...)...)
}

func TestEventsTail(t *testing.T) {
	t.Parallel()
	s := open(t)
	subject := uuid.NewString()
	ctx, cancel := context.WithCancel(t.Context())
	out, printed := io.Pipe()
	notes, noted := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		args := append([]string{"events", "tail", "--type", "factcheck.*", "--every", "5s"}, s.api()...)
		exited <- run(ctx, args, terminal{in: strings.NewReader(""), out: printed, err: noted})
		_ = printed.Close()
		_ = noted.Close()
	}()
	if _, err := bufio.NewReader(notes).ReadString('\n'); err != nil { // it has looked once
		t.Fatal(err)
	}
	const events = 230 // more than two pages, within one look
	s.ok("trigger", "factcheck.status.changed", "--subject", subject, "--count", strconv.Itoa(events))
	seen, lines := map[string]bool{}, bufio.NewScanner(out)
	for len(seen) < events && lines.Scan() {
		s.has(lines.Text(), "factcheck.status.changed")
		if strings.Contains(lines.Text(), subject) {
			if seen[lines.Text()] {
				t.Errorf("twice: %s", lines.Text())
			}
			seen[lines.Text()] = true
		}
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, out) }() // events of other tests, which it may be about to print
	assert.Equal(t, <-exited, 0, "exit")
}
