// Package containers tests the image of Carillon in containers. Its tests need a Docker engine, and are skipped without
// one.
package containers
