// Package curate decides which happening is an item of which feed, and which happenings are the same.
//
//	happening and feed events ──FeedCuration──▶ item: Added, Removed ──▶ event.item.added is published
package curate
