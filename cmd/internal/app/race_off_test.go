//go:build !race

package app_test

// raced says that this binary looks for data races, which takes time and memory.
const raced = false
