// Package visiting visits sources when they are due, and records what their pages show of happenings.
//
//	source due ──Monitor──▶ Collector ──observations──▶ happening: Observed, Revised, WentStale
package visiting
