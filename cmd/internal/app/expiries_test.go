package app

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/clientcertificate"
	"carillon/eventstore/storetest/assert"
	"carillon/projections/clientcertificates"
	"carillon/projections/projecttest"
	"carillon/query"
)

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
		if err != nil {
			t.Error(err)
		}
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
