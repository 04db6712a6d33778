package node

import (
	"context"
	"net"
	"strconv"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
)

// gossiper answers clients that discover a cluster with its only member.
type gossiper struct {
	gossip.UnimplementedGossipServer
	node *Node
}

func (g gossiper) Read(context.Context, *shared.Empty) (*gossip.ClusterInfo, error) {
	return &gossip.ClusterInfo{Members: g.node.config.Quirks.Members(&gossip.MemberInfo{
		InstanceId:   &shared.UUID{Value: &shared.UUID_String_{String_: g.node.id.String()}},
		TimeStamp:    g.node.config.Now().UnixNano() / nanosPerTick,
		State:        gossip.MemberInfo_Leader,
		IsAlive:      true,
		HttpEndPoint: g.node.endPoint(),
	})}, nil
}

const nanosPerTick = 100

// endPoint is the address for clients: the configured one, or else the address of the listener.
func (n *Node) endPoint() *gossip.EndPoint {
	n.mu.Lock()
	address := n.config.Advertise
	if address == "" && n.address != nil {
		address = n.address.String()
	}
	n.mu.Unlock()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return &gossip.EndPoint{Address: address} // a unix socket
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return &gossip.EndPoint{Address: host}
	}
	return &gossip.EndPoint{Address: host, Port: uint32(number)}
}
