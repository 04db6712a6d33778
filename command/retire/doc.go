// Package retire removes published events whose deliveries are over for longer than the installation keeps them, and
// happenings that are over, in the same way.
//
//	rows of old events ─▶ Retirer: read their streams, decide ─▶ retirement.events-retired.v1, with their counts
//	                                                               ├─▶ read models: drop the rows, keep the counts
//	                                                               └─▶ Remover: delete the streams ─▶ scavenge
//
// A kill between two steps leaves work and breaks nothing: what is retired is in the log, and Remover is a process
// manager that gets the batch again.
package retire
