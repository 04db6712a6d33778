package node

import (
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
)

// WithKeepalive makes a node ask silent connections earlier than it else does; a second is the least.
func WithKeepalive(c Config, every time.Duration) Config {
	c.keepalive = every
	return c
}

// KeepaliveEvery is what it else is.
const KeepaliveEvery = keepaliveEvery

// OpenReads returns how many reads and subscriptions are in flight.
func (n *Node) OpenReads() int64 {
	return n.calls.all()[strings.TrimPrefix(streams.Streams_Read_FullMethodName, "/")].UnderWay
}
