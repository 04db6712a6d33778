package app

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/auditor"
	"carillon/aggregates/clientcertificate"
	"carillon/cmd/internal/adapters"
	"carillon/command/curate"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/auditors"
	"carillon/projections/clientcertificates"
	"carillon/projections/operators"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/query"
)

// A read model is verified at the first look, and again when a day is over; a difference is logged, a warning, and a
// metric.
func TestVerificationOnceADay(t *testing.T) {
	t.Parallel()
	pool, store := projecttest.Pool(t, organizations.ReadModel, operators.ReadModel), nodetest.Start(t)
	discard, now := slog.New(slog.DiscardHandler), time.Now()
	runner := projecttest.Runner(t, pool, store)
	progress := runner.Progress
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = runner.Project(ctx, auditors.ReadModel) }()
	name, data, err := auditor.Aggregate.Codec.Encode(auditor.TokenIssued{TokenID: "ab", Name: "Ann", At: now})
	must.OK(t, err)
	appended, err := store.Append(ctx, auditor.Aggregate.Stream(auditor.StreamID("ab")), eventstore.NoStream,
		[]eventstore.Proposed{{ID: uuid.New(), Type: name, Data: data}})
	must.True(t, err == nil && progress.Await(ctx, appended.Position, auditors.ReadModel.Name), "%v", err)
	var logged bytes.Buffer
	v := &verifications{
		runner: runner,
		statuses: func(ctx context.Context) ([]projections.Status, error) { // a look's time is not up on a slow machine
			return statuses(context.WithoutCancel(ctx), pool)
		},
		now: func() time.Time { return now },
		log: slog.New(slog.NewTextHandler(&logged, nil)),
	}
	v.proven = adapters.NewProven(&query.Queries{Pool: pool}, store, progress.Await, v.now, discard)
	for !v.due(ctx, auditors.ReadModel.Name) { // the events may be projected before the read model is complete
		runtime.Gosched()
	}
	assert.True(t, !v.due(ctx, curate.FeedCurationName), "what never ran is due")
	once := func(part func(context.Context, <-chan time.Time)) string {
		logged.Reset()
		looks := make(chan time.Time)
		looking, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { part(looking, looks); close(ended) }()
		looks <- now
		select {
		case looks <- now: // the first look is over
		case <-ended:
		}
		stop()
		<-ended
		return logged.String()
	}
	look := func() string {
		return once(func(ctx context.Context, looks <-chan time.Time) { v.daily(ctx, auditors.ReadModel.Name, looks) })
	}
	assert.Equal(t, once(v.credentials), "", "credentials")
	if got := look(); !strings.Contains(got, "agree with the log") || !strings.Contains(got, "rows=1") {
		t.Errorf("first look: %s", got)
	}
	must.Get(pool.Exec(ctx, "UPDATE auditors.tokens SET name = 'Eve'"))(t)
	if got := look(); got != "" || v.warnings() != nil {
		t.Errorf("on the same day: %s %q", got, v.warnings())
	}
	const differs = `first="tokens id=ab changed: name is \"Eve\", expected \"Ann\""`
	if got := once(v.credentials); !strings.Contains(got, differs) { // the credential that was changed is one at once
		t.Errorf("credentials: %s", got)
	}
	now = now.Add(verifyEvery + time.Minute)
	if got := look(); !strings.Contains(got, "level=ERROR") ||
		!strings.Contains(got, differs) {
		t.Errorf("a day later: %s", got)
	}
	if got := v.warnings(); len(got) != 1 ||
		!strings.HasPrefix(got[0], "read model auditors: rows that differ from the log: 1, "+
			"the first is tokens id=ab changed: name") {
		t.Errorf("warnings: %q", got)
	}
	registry := prometheus.NewRegistry()
	s := serversOn(&stores{store: store, pool: pool}, discard)
	registry.MustRegister(scraped(s.readModels.readCheckpoints))
	families := must.Get(registry.Gather())(t)
	shown := map[string]float64{}
	for _, family := range families {
		shown[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
	}
	assert.True(t, shown["carillon_consumer_differing_rows"] == 1 &&
		shown["carillon_consumer_verified_timestamp_seconds"] != 0, "metrics: %v", shown)
}

// Thirty days before a client certificate expires it is reported: in the log once a day, in the status, and as a
// metric.
func TestExpiringCertificatesAreReported(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, clientcertificates.ReadModel)
	pool := log.Database
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var logged bytes.Buffer
	e := &expiries{
		queries: &query.Queries{Pool: pool},
		log:     slog.New(slog.NewTextHandler(&logged, nil)),
		now:     func() time.Time { return now },
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(scraped(e.read))
	days := func() (left []float64) {
		families, err := registry.Gather()
		assert.OK(t, err)
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				left = append(left, metric.GetGauge().GetValue())
			}
		}
		return left
	}
	if len(days()) > 0 || e.warnings() != nil {
		t.Errorf("of none, %v days are left, %v", days(), e.warnings())
	}
	set := func(days int) uuid.UUID {
		organization := uuid.New()
		projecttest.Stream(log, clientcertificate.Aggregate, organization, now)(clientcertificate.Set{
			Certificate: clientcertificate.Certificate{
				ID:          uuid.New(),
				Fingerprint: "print",
				NotBefore:   now,
				NotAfter:    now.AddDate(0, 0, days),
			},
			At: now,
		})
		return organization
	}
	soon, later := set(31), set(90)
	log.Project()
	before := map[string]time.Time{}
	lines := func() int { return strings.Count(logged.String(), "client certificate") }
	if e.warn(t.Context(), before); lines() != 0 || e.warnings() != nil {
		t.Errorf("31 days before:\n%s%v", logged.String(), e.warnings())
	}
	now = now.AddDate(0, 0, 2)
	for range 3 { // once a day
		e.warn(t.Context(), before)
	}
	want := `organization=` + soon.String() + ` fingerprint=print expires=2026-12-22T12:00:00.000Z daysLeft=29`
	assert.True(t, lines() == 1 && strings.Contains(logged.String(), want) &&
		strings.Contains(logged.String(), "expires soon") && !strings.Contains(logged.String(), later.String()),
		"29 days before:\n%s", logged.String())
	if got := e.warnings(); len(got) != 1 ||
		got[0] != "client certificates: "+soon.String()+" on 2026-12-22 expire soon, or have (carillon org certificate set)" {
		t.Errorf("warnings: %v", got)
	}
	assert.Slices(t, days(), []float64{29}, "days are left")
	now = now.AddDate(0, 0, 30)
	if e.warn(t.Context(), before); lines() != 2 || !strings.Contains(logged.String(), "has expired") ||
		!slices.Equal(days(), []float64{-1}) {
		t.Errorf("afterwards:\n%s", logged.String())
	}
	for range 7 {
		set(20)
	}
	log.Project()
	if got := e.warnings(); len(got) != 1 || !strings.Contains(got[0], " and 3 more expire") {
		t.Errorf("of many: %v", got)
	}
}
