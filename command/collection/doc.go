// Package collection is what goes on by itself between sources and feeds.
//
//	source due ──Monitor──▶ Collector ──observations──▶ happening: Observed, Revised, WentStale
//	                                                          │
//	happening and feed events ──FeedCuration──▶ item: Added, Removed ──▶ event.item.added is published
//
// The Monitor visits sources when they are due. FeedCuration is the process manager that decides which happening is an
// item of which feed.
package collection
