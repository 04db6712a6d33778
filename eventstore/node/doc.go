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
// What an append acknowledges is on disk; readers and subscribers never see what is not. The storage is described in
// internal/store, persistent subscriptions in internal/persistent, and the messages in internal/wire. This package
// holds the services, one file each, and what they share.
//
// Where the node differs from a server of the original: no projections, one user at most, who is its administrator, and
// the settings and progress of persistent subscriptions are kept beside the log, not in it.
package node
