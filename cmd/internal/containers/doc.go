// Package containers tests the image of Carillon in containers. Its tests have the build tag containers and need a
// Docker engine: make containers.
package containers
