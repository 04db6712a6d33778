//go:build nightly

package app_test

import "time"

// patience limits waiting, on a busy machine, beside kills and floods.
const patience = 4 * time.Minute
