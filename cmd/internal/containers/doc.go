// Package containers tests the image of Carillon in containers. Its tests need a Docker engine, and are skipped without
// one: make nightly runs that of the image alone, make containers all of them.
package containers
