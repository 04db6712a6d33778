//go:build nightly

package app_test

import "time"

// patience bounds the wait for what has to happen, on a busy machine, beside kills and floods.
const patience = 4 * time.Minute
