//go:build !nightly

package app_test

import "time"

// patience bounds the wait for what has to happen, on a busy machine.
const patience = time.Minute
