// Package dispatching has the process manager that turns each published event into its deliveries: one event with the
// whole fan-out, appended in the background, with the publishing organizations in turn. It plans in the order of all
// events, so that planning again after a crash comes to the same result.
package dispatching
