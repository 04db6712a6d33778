package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/deliveries"
	"carillon/projections/deliveries/deliverystate"
	"carillon/projections/destinations"
	"carillon/projections/publications"
	"carillon/projections/subscriptions"
	"carillon/query"
)

// statesOfOne makes an event with a delivery in each state, and returns the deliveries and their destinations by
// state.
func (s shell) statesOfOne(ctx context.Context) (event uuid.UUID, all, to map[deliverystate.State]uuid.UUID) {
	s.Helper()
	by := command.Caller{Organization: app.DevelopmentOrganization, Actor: "key:test", RequestID: uuid.New()}
	to = map[deliverystate.State]uuid.UUID{}
	for _, state := range deliverystate.States() {
		settings := destination.Settings{Name: "To " + string(state), URL: "https://receiver.example/hook"}
		made := must.Get(s.app.Commands.CreateDestination(ctx, by, command.CreateDestination{
			DestinationSettings: command.DestinationSettings{Settings: settings},
		}))(s)
		to[state] = made.ID
		s.app.Progress.Await(ctx, made.Position, destinations.ReadModel.Name, audit.ReadModel.Name)
		wanted := must.Get(s.app.Commands.CreateSubscription(ctx, by, command.CreateSubscription{
			Destination: made.ID,
			Settings:    subscription.Settings{EventTypes: []string{"news.*"}, ScopeKind: "all"},
		}))(s)
		s.app.Progress.Await(ctx, wanted.Position, subscriptions.ReadModel.Name, dispatching.Name)
	}
	published := must.Get(s.app.Commands.Publish(ctx, by, command.Publish{
		Type:         "news.item.added",
		Source:       "/feeds/city",
		Subject:      "item/1",
		Organization: app.DevelopmentOrganization,
		Data:         []byte(`{"id":"1","title":"Fair"}`),
	}))(s)
	s.app.Progress.Await(ctx, published.Position, publications.ReadModel.Name)
	s.app.Progress.AwaitRecorded(ctx, published.Position, dispatching.Name)
	all = map[deliverystate.State]uuid.UUID{}
	for state, id := range to {
		all[state] = dispatch.DeliveryID(published.ID, id)
	}
	attempt := func(state deliverystate.State, status int, schedule ...time.Duration) {
		outcome := delivery.Outcome{ResponseStatus: status, DurationMicros: 1000}
		if status >= 300 {
			outcome.FailureReason, outcome.ErrorMessage = delivery.FailureStatus, fmt.Sprintf("answered %d", status)
		}
		s.decided(ctx, all[state], delivery.RecordAttempt{
			Organization: app.DevelopmentOrganization,
			Destination:  to[state],
			Number:       1,
			Trigger:      delivery.Automatic,
			Outcome:      outcome,
			At:           time.Now(),
			Retry:        delivery.Retry{Schedule: schedule},
		})
	}
	attempt(deliverystate.Retrying, 503, time.Hour)
	attempt(deliverystate.Succeeded, 204)
	attempt(deliverystate.Failed, 500)
	s.decided(ctx, all[deliverystate.Superseded], delivery.Supersede{By: uuid.New(), At: time.Now()})
	s.decided(ctx, all[deliverystate.Discarded], delivery.Discard{Reason: "no subscription", At: time.Now()})
	const hold = "UPDATE deliveries.due SET worker = 7, available_at = now() + interval '1 h' WHERE id = $1"
	must.Get(s.app.Queries.Pool.Exec(ctx, hold, all[deliverystate.Delivering]))(s)
	return published.ID, all, to
}

// decided executes a command of a delivery, and waits until it is read.
func (s shell) decided(ctx context.Context, id uuid.UUID, do delivery.Command) {
	s.Helper()
	done, err := delivery.Aggregate.Execute(ctx, s.app.Commands.Store, id, do, delivery.Options{})
	must.True(s, err == nil && len(done.Events) == 1, "%d events, %v", len(done.Events), err)
	s.app.Progress.Await(ctx, done.Position, deliveries.ReadModel.Name)
}

// visitor returns a reader of the console's pages and of metrics.
func (s shell) visitor(ctx context.Context) func(address string) string {
	s.Helper()
	jar := must.Get(cookiejar.New(nil))(s)
	browser := &http.Client{Jar: jar}
	key := must.Get(s.app.DevelopmentKey(ctx))(s)
	console := "http://" + s.app.APIAddr().String() + "/console"
	signIn := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, console+"/sign-in",
		strings.NewReader(url.Values{"key": {key}}.Encode())))(s)
	signIn.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	signIn.Header.Set("Sec-Fetch-Site", "same-origin")
	if status, text := apitest.Ask(s, browser, signIn); status != http.StatusOK {
		s.Fatalf("sign in: %d %s", status, text)
	}
	return func(address string) string {
		s.Helper()
		if strings.HasPrefix(address, "/") {
			address = console + address
		}
		page := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody))(s)
		status, text := apitest.Ask(s, browser, page)
		must.True(s, status == http.StatusOK, "%s: %d %s", address, status, text)
		return text
	}
}

// TestDeliveryStatesAreTheSameEverywhere walks a delivery in each state through every place that shows it.
func TestDeliveryStatesAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	cfg := settings(shortDir(t), apitest.Prepared.URL(t))
	cfg.Roles = []string{config.RoleAPI, config.RoleProject, config.RoleDispatch} // without deliverers it is never ready
	server := serve(t, cfg)
	s := shell{T: t, app: server.app, server: server.flags}
	event, all, to := s.statesOfOne(t.Context())
	get := s.visitor(t.Context())
	metrics := get("http://" + s.app.AdminAddr().String() + "/metrics")
	eventPage, eventText := get("/events/"+event.String()), s.asked("events", "show", event.String())
	var detail httpapi.EventDetail
	s.read(&detail, "events", "show", event.String())
	parts := detail.MissedBy
	for _, n := range detail.Deliveries {
		parts += n
	}
	assert.True(t, parts == len(all) && detail.Recipients.Total == len(all),
		"%d deliveries of %d destinations: %+v", parts, len(all), detail)
	for _, name := range deliverystate.Names() {
		set, _ := deliverystate.Named(name)
		var list httpapi.Stretch[query.Delivery]
		s.read(&list, "deliveries", "--status", name)
		page := get("/deliveries?status=" + name)
		for state, id := range all {
			of := slices.IndexFunc(list.Items, func(d query.Delivery) bool { return d.ID == id })
			if (of >= 0) != set.Has(state) || of >= 0 && list.Items[of].State != state {
				t.Errorf("%s: the list of %s has it at %d", state, name, of)
			}
			assert.Equal(t, strings.Contains(page, id.String()), set.Has(state), "%s: the page of %s has it", state, name)
			if name != string(state) && name != string(deliverystate.Succeeded) {
				continue // a filter as that of all destinations
			}
			ofIts := get(fmt.Sprintf("/destinations/%s/deliveries?status=%s", to[state], name))
			assert.Equal(t, strings.Contains(ofIts, id.String()), set.Has(state),
				"%s: the page of its destination of %s has it", state, name)
		}
	}
	rows, page := s.asked("deliveries"), get("/deliveries")
	for state, id := range all {
		words := string(state)
		pill := fmt.Sprintf(`<span class="status %s">%[1]s</span>`, state)
		shown := func(place, text, want string) {
			t.Helper()
			assert.True(t, regexp.MustCompile(want).MatchString(text), "%s, %s: no %q in %s", state, place, want, text)
		}
		row := func(text string) string {
			_, row, _ := strings.Cut(text, id.String())
			row, _, _ = strings.Cut(row, "\n")
			return row
		}
		var show httpapi.DeliveryDetail
		s.read(&show, "delivery", "show", id.String())
		if show.State != state || show.Status != state.Status() || detail.Deliveries[state] != 1 {
			t.Errorf("%s: the API shows %s and %s, and %d of the event", state, show.State, show.Status,
				detail.Deliveries[state])
		}
		shown("row", row(rows), `\s`+words+`\s`)
		shown("show", s.asked("delivery", "show", id.String()), `status\s+`+words)
		shown("events show", eventText, "destinations.*1 "+words)
		shown("recipients", row(eventText), `\s`+words)
		shown("page", get("/deliveries/"+id.String()), "<h1>news.item.added "+pill)
		shown("list page", page, `(?s)data-id="`+id.String()+`">\s*<td>`+pill)
		shown("event page", eventPage, id.String()+`">`+pill)
		shown("event page", eventPage, `who=`+words+`">\w+ 1<`)
		shown("metrics", metrics, fmt.Sprintf(`carillon_deliveries\{state="%s"\} 1\n`, state))
		for _, view := range []string{"deliveries_by_day", "destination_days", "destinations", "organizations"} {
			if !state.Live() && (view != "deliveries_by_day") {
				continue
			}
			var n int
			count := "SELECT sum(" + words + ") FROM analytics." + view
			err := s.app.Queries.Pool.QueryRow(t.Context(), count).Scan(&n)
			assert.True(t, err == nil && n == 1, "%s: analytics.%s has %d, %v", state, view, n, err)
		}
	}
	for command, state := range map[string]deliverystate.State{
		"replay": deliverystate.Waiting,
		"retry":  deliverystate.Failed,
	} {
		s.refused(`"carillon deliveries re`, append([]string{"delivery", command, all[state].String()}, s.api()...)...)
	}
	shownOverview(t, get("/"), slices.Collect(maps.Keys(all)))
}

func shownOverview(t *testing.T, page string, states []deliverystate.State) {
	t.Helper()
	for _, state := range states {
		if link := fmt.Sprintf(`status=%s">1 %[1]s</a>`, state); state.Live() && !strings.Contains(page, link) {
			t.Errorf("overview: no %s in\n%s", link, page)
		}
	}
}

// read reads the JSON that a command prints.
func (s shell) read(into any, args ...string) {
	s.Helper()
	must.OK(s, json.Unmarshal([]byte(s.asked(append(args, "--json")...)), into))
}
