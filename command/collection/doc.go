// Package collection connects sources and feeds: it visits sources and curates the items of feeds.
//
//	source due ──Monitor──▶ Collector ──observations──▶ happening: Observed, Revised, WentStale
//	                                                          │
//	happening and feed events ──FeedCuration──▶ item: Added, Removed ──▶ event.item.added is published
//
// The Monitor visits sources when they are due. FeedCuration is the process manager that decides which happening is an
// item of which feed.
package collection
