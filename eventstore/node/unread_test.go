package node_test

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node"
)

// A caller without credentials is refused by the headers alone: no message is needed, and messages take no memory.
func TestCredentialsComeBeforeMessages(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{
		TLS:  &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS12},
		User: "admin", Password: "right",
	})
	// such calls come through the web server
	either := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
	beside, err := grpc.NewClient(s.listenTCP(t), grpc.WithTransportCredentials(credentials.NewTLS(either)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = beside.Close() })
	large := &streams.AppendReq{Content: &streams.AppendReq_ProposedMessage_{
		ProposedMessage: &streams.AppendReq_ProposedMessage{Data: make([]byte, 1<<20)},
	}}
	for name, connection := range map[string]*grpc.ClientConn{"native": rawConnection(t, s), "beside HTTP": beside} {
		for _, method := range []string{
			"streams.Streams/Delete", "streams.Streams/Read", "streams.Streams/Append", "streams.Streams/BatchAppend",
			"persistent_subscriptions.PersistentSubscriptions/Create", "persistent_subscriptions.PersistentSubscriptions/Read",
		} {
			t.Run(name+"/"+method, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience/4)
				defer cancel()
				desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
				call, err := connection.NewStream(ctx, desc, "/event_store.client."+method)
				if err == nil {
					err = call.RecvMsg(&shared.Empty{})
				}
				if status.Code(err) != codes.PermissionDenied {
					t.Errorf("before a message: %v", err)
				}
				if call, err = connection.NewStream(ctx, desc, "/event_store.client."+method); err == nil {
					_ = call.SendMsg(large) // it may have been refused by then
					err = call.RecvMsg(&shared.Empty{})
				}
				if status.Code(err) != codes.PermissionDenied {
					t.Errorf("with a large message: %v", err)
				}
			})
		}
		t.Run(name+"/public calls", func(t *testing.T) {
			t.Parallel()
			if _, err := gossip.NewGossipClient(connection).Read(t.Context(), &shared.Empty{}); err != nil {
				t.Error(err)
			}
			err := connection.Invoke(t.Context(), gossip.Gossip_Read_FullMethodName, large, &gossip.ClusterInfo{})
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("a large message: %v", err)
			}
		})
	}
}
