// Package sending sends deliveries: those that a dispatcher hands over, and those that it claims from the queue. The
// schedule decides which is next, the facts whether and how it is sent; each attempt is recorded before its delivery is
// forgotten. Any number of deliverers in any number of processes work on one queue.
package sending
