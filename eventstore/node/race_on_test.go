//go:build race

package node_test

// raced says that the race detector is on, which makes programs several times as slow and large.
const raced = true
