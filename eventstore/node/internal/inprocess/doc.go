// Package inprocess carries gRPC calls to a server in the caller's own process.
//
//	caller ─▶ client's codec ─▶ encoded message, in memory ─▶ server's codec ─▶ handler
//
// Each message is encoded by one side and decoded by the other, as on a wire, so that both sides are the same code as
// with any other server. What is left out is what carries the messages elsewhere: frames, windows, sockets, and the four
// goroutines that attend to them. Headers of answers don't exist, as the node sends none.
package inprocess
