package node

import (
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	dto "github.com/prometheus/client_model/go"
)

// WithKeepalive makes a node ask silent connections earlier than it else does; a second is the least.
func WithKeepalive(c Config, every time.Duration) Config {
	c.keepalive = every
	return c
}

// KeepaliveEvery replaces the default interval.
const KeepaliveEvery = keepaliveEvery

// OpenReads returns how many reads and subscriptions are in flight.
func (n *Node) OpenReads() int64 {
	var read dto.Metric
	if n.metrics.inFlight.WithLabelValues(strings.TrimPrefix(streams.Streams_Read_FullMethodName, "/")).
		Write(&read) != nil {
		return -1
	}
	return int64(read.GetGauge().GetValue())
}
