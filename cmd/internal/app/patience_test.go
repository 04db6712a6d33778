//go:build !nightly

package app_test

import "time"

// patience limits waiting, on a busy machine.
const patience = time.Minute
