package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/irreversible"
	"carillon/command/retire"
	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/health"
	"carillon/projections/publications"
)

// kept is how long the processes of these tests keep deliveries.
const kept = 7 * 24 * time.Hour

func retaining(c *config.Config) { c.RetainDeliveries = kept }

// analysis returns the views of days and destinations for analysts.
func (p *process) analysis() map[string]any {
	p.Helper()
	return p.views(
		"deliveries_by_day", "success_rates", "destinations", "organizations", "failures_by_reason",
		"(SELECT day, destination_id, deliveries, succeeded, failed, pending, attempts, failed_attempts FROM "+
			"analytics.destination_days)",
		"(SELECT day, destination_id, attempts FROM analytics.latency_percentiles)",
	)
}

// views returns the rows of views for analysts, and of queries in parentheses.
func (p *process) views(all ...string) map[string]any {
	p.Helper()
	must.OK(p, p.app.Settle(p.Context()))
	found := map[string]any{}
	for _, view := range all {
		from := view
		if !strings.HasPrefix(view, "(") {
			from = "analytics." + view
		}
		var rows any
		err := p.app.Queries.Pool.QueryRow(p.Context(), "SELECT coalesce(jsonb_agg(to_jsonb(v) ORDER BY v), '[]') FROM "+from+
			" v").Scan(&rows)
		must.OK(p, err)
		found[view] = rows
	}
	return found
}

// rebuilt makes the read models of deliveries again from what is in the store.
func (p *process) rebuilt() {
	p.Helper()
	p.rebuild(deliveries.ReadModel.Name, publications.ReadModel.Name, health.ReadModel.Name)
}

func (p *process) rebuild(names ...string) {
	p.Helper()
	for _, name := range names {
		must.OK(p, p.operator().Rebuild(p.Context(), name))
	}
	p.eventually("the read models are rebuilt", func() bool {
		list := must.Get(p.operator().Projections(p.Context()))(p)
		for _, one := range list {
			if one.Rebuild != nil {
				return false
			}
		}
		return true
	})
}

// streams counts the streams of a category that can be read.
func (p *process) streams(category string) (n int) {
	p.Helper()
	head := must.Get(p.app.Commands.Store.Head(p.Context()))(p)
	seen := map[string]struct{}{}
	for message, err := range p.app.Commands.Store.Subscribe(p.Context(), eventstore.Start,
		eventstore.Categories(category)) {
		must.OK(p, err)
		if message.Event != nil {
			seen[message.Event.Stream] = struct{}{}
		}
		if message.CaughtUp || !message.Position.Before(head) {
			return len(seen)
		}
	}
	return len(seen)
}

// verified compares the log with its tree heads.
func (p *process) verified() *treeheads.Report {
	p.Helper()
	store, err := esdb.OpenUnix(filepath.Join(p.cfg.DataDir, "eventstore.sock"), slog.New(slog.DiscardHandler))
	must.OK(p, err)
	defer func() { _ = store.Close() }()
	v := treeheads.Verification{Store: store, All: store.Events}
	report := must.Get(v.Run(p.Context()))(p)
	return report
}

// later is a time at which all that happens in these tests is over for long enough.
func later() time.Time { return time.Now().Add(kept + 2*time.Hour) }

func TestRetirement(t *testing.T) {
	t.Parallel()
	p := newProcess(t, retaining)
	ok, _ := p.endpoint(func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusOK) })
	bad, _ := p.endpoint(func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusBadRequest) })
	good := p.connect("good", ok, 0)
	failing := p.connect("failing", bad, 0)
	first, second := p.publish(), p.publish()
	for _, event := range []uuid.UUID{first, second} {
		p.settled(deliveryOf(event, good), "succeeded")
		p.settled(deliveryOf(event, failing), "failed")
	}
	// Another organization sees none of this, and its deliveries count for themselves.
	other := p.another("Other")
	others := other.connect("theirs", ok, 0)
	other.settled(deliveryOf(other.publish(), others), "succeeded")
	must.Get(p.operator().Seal(p.Context()))(t)
	before := p.analysis()
	must.Equal(t, must.Get(p.app.RetireAt(t.Context(), time.Now(), nil))(t), 0, "young events are retired")
	// Nothing is retired that the dispatcher has yet to take on: it would never be delivered.
	nothingDispatched := func(r *retire.Retirer) {
		r.Dispatched = func(context.Context) eventstore.Position { return eventstore.Start }
	}
	undispatched := must.Get(p.app.RetireAt(t.Context(), later(), nothingDispatched))(t)
	must.Equal(t, undispatched, 0, "events are retired that were not dispatched")
	// Nothing is retired by a clock that Postgres' contradicts, or if it is much of the log at once.
	ahead := p.app.GateBy(later)
	if n, err := p.app.RetireAt(t.Context(), later(), func(r *retire.Retirer) { r.Pass = ahead.Pass }); n != 0 ||
		!errors.Is(err, irreversible.ErrClocks) {
		t.Fatalf("%d events retired by a clock that is ahead, %v", n, err)
	}
	var retirer *retire.Retirer
	n, err := p.app.RetireAt(t.Context(), time.Now(), func(r *retire.Retirer) {
		due := r.Due
		r.Due = func(ctx context.Context, _ time.Time) (irreversible.Share, error) { return due(ctx, later()) }
		r.Pass = p.app.GateBy(time.Now).Pass
		retirer = r
	})
	waits := strings.Join(retirer.Warnings(), "\n")
	must.True(t, n == 0 && err == nil && strings.Contains(waits, "3 of 3 are due"),
		"%d events retired of a large share, %v: %q", n, err, waits)
	must.Equal(t, must.Get(p.app.RetireAt(t.Context(), later(), nil))(t), 3, "events are retired")
	check := func(when string) {
		t.Helper()
		assert.Alike(t, p.analysis(), before, "analysts see another past %s", when)
		for _, name := range []string{"good", "failing"} {
			assert.Equal(t, p.total(destinations+name+"/deliveries"), 0, "deliveries to %s are listed %s", name, when)
		}
		// Retired and unknown deliveries look alike, as do those of other organizations.
		for _, id := range []string{deliveryOf(first, good), uuid.NewString()} {
			for method, path := range map[string]string{http.MethodPost: id + "/replay", http.MethodGet: id} {
				text := p.refused(method, "/events/deliveries/"+path, nil, http.StatusNotFound, "NOT_FOUND")
				assert.True(t, strings.Contains(text, "deliveries are kept for"), "%s the answer is %q", when, text)
			}
		}
	}
	check("after the retirement")
	for _, category := range []string{"publication", "dispatch", "delivery"} {
		assert.Equal(t, p.streams(category), 0, "streams of %s are left", category)
	}
	if report := p.verified(); !report.OK() || report.Removed == 0 || report.Retired != 11 {
		t.Errorf("the log differs from its tree heads: %+v", report)
	}
	p.rebuilt()
	check("after a rebuild")
	assert.Equal(t, must.Get(p.app.RetireAt(t.Context(), later(), nil))(t), 0, "events are retired again")
	p.restart()
	check("after a restart")
	// The id of a retired event is taken.
	_, err = p.app.Commands.Publish(t.Context(), command.Caller{Actor: "operator"}, command.Publish{
		ID:           first,
		Type:         "news.item.added",
		Source:       "/news",
		Organization: p.organization,
		Data:         []byte(`{"id":"7","title":"Storm"}`),
	})
	refusal, is := errors.AsType[*command.Refusal](err)
	assert.True(t, is && refusal.Kind == command.Conflict, "published again: %v", err)
}
