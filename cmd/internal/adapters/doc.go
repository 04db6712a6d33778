// Package adapters holds the Postgres sides of the interfaces that package command and the packages below it declare,
// each in a file that is named after it. Most of them translate between rows (packages query and projections) and the
// types of a use case or a process manager; data keys, rate limits and the state of hosts are kept in separate tables.
package adapters
