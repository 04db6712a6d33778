// Package adapters holds the Postgres sides of the interfaces that package command and the packages below it declare,
// each in a file that is named after it. Most of them translate between rows (packages query and projections) and what
// a use case or a process manager asks for; data keys, rate limits and what is known of hosts are kept in tables of
// their own.
package adapters
