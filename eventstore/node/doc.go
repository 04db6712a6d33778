// Package node is a durable single-node event store that speaks the EventStoreDB gRPC protocol, so that the official
// clients work with it unchanged, in the same process (Connect, or a unix socket) or from other machines over TCP.
//
// It is written from the protocol's observable behaviour and its public documentation. It announces a protocol
// version, not a product.
//
//	n, err := node.Open(node.Config{Dir: dir})
//	go n.ListenUnix(path) // or n.Serve(listener)
//	defer n.Close()
//
// An acknowledged append is on disk; readers and subscribers never see unsynced events. The storage is described in
// internal/store. This package holds the services, one file each, and their common parts.
//
// The node has no projections, no persistent subscriptions, and one user at most, who is its administrator.
package node
