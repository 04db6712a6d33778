package app

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/projections"
	"carillon/projections/sessionlock"
)

var (
	consumerStopped = prometheus.NewDesc("carillon_consumer_stopped",
		"1 if a projection or process manager has stopped at an event that it can't decode.", []string{"consumer"}, nil)
	consumerRunning = prometheus.NewDesc("carillon_consumer_running",
		"1 if a process runs a projection or process manager, else 0.", []string{"consumer"}, nil)
	consumerEvents = prometheus.NewDesc("carillon_consumer_events_total",
		"Events that a projection or process manager has applied since it was built.", []string{"consumer"}, nil)
	consumerPosition = prometheus.NewDesc("carillon_consumer_position",
		"Commit position of the checkpoint.", []string{"consumer"}, nil)
	consumerLag = prometheus.NewDesc("carillon_consumer_lag_seconds",
		"For how long the oldest event that a projection or process manager has not taken in has been recorded; 0 where "+
			"there is none.", []string{"consumer"}, nil)
	consumerDiffering = prometheus.NewDesc("carillon_consumer_differing_rows",
		"Rows of a read model that differed from the log when it was last verified. Absent before.",
		[]string{"consumer"}, nil)
	consumerVerified = prometheus.NewDesc("carillon_consumer_verified_timestamp_seconds",
		"When a read model was last compared with the log. Absent before.", []string{"consumer"}, nil)
	strangeLocks = prometheus.NewDesc("carillon_locks_held_by_strangers",
		"Advisory locks in the database that sessions of other Postgres users hold, such as analysts: consumers may wait "+
			"for one.", nil, nil)
)

// readCheckpoints reads the checkpoints, so that every process reports the same of all consumers. It reports nothing
// without Postgres, and no lag without the event store.
func (m *readModels) readCheckpoints(ctx context.Context, to scrape) {
	statuses, err := m.statuses(ctx)
	if err != nil {
		m.log.Warn("metrics of consumers can't be read", "error", err)
		return
	}
	for _, s := range statuses {
		to.gauge(consumerStopped, boolToFloat(s.Stopped != ""), s.Name)
		to.gauge(consumerRunning, boolToFloat(s.Process != ""), s.Name)
		to.count(consumerEvents, float64(s.Events), s.Name)
		to.gauge(consumerPosition, float64(s.Position.Commit), s.Name)
		if v := s.Verified; v != nil {
			to.gauge(consumerDiffering, float64(v.Differing), s.Name)
			to.gauge(consumerVerified, float64(v.At.Unix()), s.Name)
		}
	}
	if holders, err := sessionlock.Holders(ctx, m.stores.pool); err == nil { // else the statuses could not be read either
		strange := 0
		for _, holder := range holders {
			if holder.Stranger != "" {
				strange++
			}
		}
		to.gauge(strangeLocks, float64(strange))
	}
	if err := m.collectLags(ctx, statuses, to); err != nil {
		m.log.Warn("how far consumers are behind can't be read", "error", err)
	}
}

func (m *readModels) collectLags(ctx context.Context, statuses []projections.Status, to scrape) error {
	head, err := m.stores.store.Head(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, s := range statuses {
		lag, err := m.lags.of(ctx, s, head)
		switch {
		case errors.Is(err, errNoConsumer): // of another build
		case err != nil:
			failed = append(failed, err) // of the others it may be known
		default:
			to.gauge(consumerLag, lag.Seconds(), s.Name)
		}
	}
	return errors.Join(failed...)
}
