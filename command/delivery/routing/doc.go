// Package routing maps published events to their receivers, by feeds, destinations and subscriptions as they were when
// the event was published, and puts deliveries into their debounce windows.
package routing
