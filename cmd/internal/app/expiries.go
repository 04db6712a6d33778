package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/query"
)

const (
	expiresSoon   = 30 * 24 * time.Hour // before a client certificate expires, it is reported
	expiryPause   = time.Hour           // between two looks
	expiryAgain   = 24 * time.Hour      // the same is logged again
	expiryTimeout = 2 * time.Second
	mostExpiring  = 100 // that are reported one by one
	mostWarned    = 5
)

// expiries reports which client certificates expire soon, or have: receivers refuse them from then on.
type expiries struct {
	queries *query.Queries
	log     *slog.Logger
	now     func() time.Time
}

// watch logs them once a day each, until the context ends.
func (e *expiries) watch(ctx context.Context) {
	logged := map[string]time.Time{} // by organization and fingerprint
	ticker := time.NewTicker(expiryPause)
	defer ticker.Stop()
	for {
		e.warn(ctx, logged)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// warn logs those that were not logged lately.
func (e *expiries) warn(ctx context.Context, logged map[string]time.Time) {
	now := e.now()
	list, total, err := e.soon(ctx, mostExpiring)
	if err != nil {
		if ctx.Err() == nil {
			e.log.Warn("which client certificates expire soon can't be read", "error", err)
		}
		return
	}
	for key, at := range logged {
		if now.Sub(at) >= expiryAgain {
			delete(logged, key)
		}
	}
	for _, c := range list {
		key := c.Organization.String() + c.Fingerprint
		if _, done := logged[key]; done {
			continue
		}
		logged[key] = now
		log := e.log.With("organization", c.Organization, "fingerprint", c.Fingerprint, "expires", c.NotAfter.UTC(),
			"daysLeft", wholeDays(c.NotAfter, now))
		if now.Before(c.NotAfter) {
			log.Warn("a client certificate expires soon, and receivers refuse it from then on: set another one (carillon org " +
				"certificate set)")
		} else {
			log.Warn("a client certificate has expired, and receivers refuse it: set another one (carillon org certificate set)")
		}
	}
	if more := total - len(list); more > 0 && len(list) > 0 {
		if _, done := logged[uuid.Nil.String()]; !done {
			logged[uuid.Nil.String()] = now
			e.log.Warn("more client certificates expire soon, or have", "more", more)
		}
	}
}

func (e *expiries) soon(ctx context.Context, most int) ([]query.ExpiringCertificate, int, error) {
	ctx, cancel := context.WithTimeout(ctx, expiryTimeout)
	defer cancel()
	return e.queries.ExpiringCertificates(ctx, e.now().Add(expiresSoon), most)
}

func wholeDays(until, now time.Time) int { return int(math.Floor(until.Sub(now).Hours() / 24)) }

// warnings are the warnings of readiness and status. Without Postgres there are none.
func (e *expiries) warnings() []string {
	list, total, err := e.soon(context.Background(), mostWarned)
	if err != nil || total == 0 {
		return nil
	}
	named := make([]string, len(list))
	for i, c := range list {
		named[i] = fmt.Sprintf("%s on %s", c.Organization, c.NotAfter.UTC().Format(time.DateOnly))
	}
	text := strings.Join(named, ", ")
	if more := total - len(list); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []string{"client certificates: " + text + " expire soon, or have (carillon org certificate set)"}
}

var certificateDays = prometheus.NewDesc("carillon_client_certificate_days_left",
	"Days until the first of the client certificates expires that organizations show to receivers; negative: it has. "+
		"Absent if there is none.", nil, nil)

// read reports nothing without Postgres.
func (e *expiries) read(ctx context.Context, to scrape) {
	at, found, err := e.queries.SoonestExpiry(ctx)
	if err != nil {
		e.log.Warn("when client certificates expire can't be read", "error", err)
		return
	}
	if found {
		to.gauge(certificateDays, at.Sub(e.now()).Hours()/24)
	}
}
