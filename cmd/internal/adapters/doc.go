// Package adapters holds the Postgres sides of the interfaces that package command and the packages below it declare:
// the queue of deliveries, the schedule and the locks of sources, the history for backfills, data keys, rate limits. Each
// translates between rows (packages query and projections) and what a use case or process manager asks for.
package adapters
