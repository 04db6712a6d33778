// Package notices makes publications about destinations and sources for the destinations that organizations and
// operators name for them. Of one kind about one thing, one is sent a minute: the next one counts the others.
package notices
