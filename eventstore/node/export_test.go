package node

import "time"

// WithKeepalive makes a node ask silent connections earlier than it else does; a second is the least.
func WithKeepalive(c Config, every time.Duration) Config {
	c.keepalive = every
	return c
}

// KeepaliveEvery is what it else is.
const KeepaliveEvery = keepaliveEvery
