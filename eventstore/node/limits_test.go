package node_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// filtered begins a subscription to $all, and waits for its confirmation.
func filtered(
	ctx context.Context, client streams.StreamsClient, expression *streams.ReadReq_Options_FilterOptions_Expression,
) error {
	request := subscription("")
	request.Options.FilterOption = &streams.ReadReq_Options_Filter{Filter: &streams.ReadReq_Options_FilterOptions{
		Filter:                       &streams.ReadReq_Options_FilterOptions_EventType{EventType: expression},
		Window:                       &streams.ReadReq_Options_FilterOptions_Max{Max: 32},
		CheckpointIntervalMultiplier: 1,
	}}
	call, err := client.Read(ctx, request)
	if err != nil {
		return err
	}
	_, err = call.Recv()
	return err
}

func pattern(regex string) *streams.ReadReq_Options_FilterOptions_Expression {
	return &streams.ReadReq_Options_FilterOptions_Expression{Regex: regex}
}

func TestFiltersAreBounded(t *testing.T) {
	t.Parallel()
	client := streams.NewStreamsClient(rawConnection(t, serve(t, node.Config{})))
	for name, c := range map[string]struct {
		expression *streams.ReadReq_Options_FilterOptions_Expression
		want       codes.Code
	}{
		"as the program asks":      {pattern(`^[^\$].*`), codes.OK},
		"letters of all alphabets": {pattern(`^\p{L}{1,60}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`), codes.OK},
		"many words":               {pattern("^(" + strings.Repeat("thing-happened|", 60) + "last)$"), codes.OK},
		"long":                     {pattern(strings.Repeat("a", 1<<10+1)), codes.InvalidArgument},
		"too many repetitions":     {pattern("(a{1000}){2}"), codes.InvalidArgument},
		"too many prefixes": {&streams.ReadReq_Options_FilterOptions_Expression{Prefix: slices.Repeat([]string{"a"},
			2000)}, codes.InvalidArgument},
		"prefixes that are too long": {&streams.ReadReq_Options_FilterOptions_Expression{Prefix: []string{strings.Repeat("a",
			100<<10)}}, codes.InvalidArgument},
	} {
		assert.Equal(t, status.Code(filtered(t.Context(), client, c.expression)), c.want, "%s", name)
	}
}

// A node enforces no lists, so it accepts none, with a user or without; one that only its process uses stores those it
// gets.
func TestAccessControlLists(t *testing.T) {
	t.Parallel()
	open := serve(t, node.Config{})
	protected := serveSecured(t)
	clients := map[string]*esdb.Client{
		"open":      dial(t, "esdb://"+open.listenTCP(t)+"?tls=false"),
		"protected": dial(t, "esdb://admin:right@"+protected.listenTCP(t)+"?tlsverifycert=false"),
		"private":   start(t),
	}
	for name, c := range map[string]struct {
		stream, data string
		refused      bool
	}{
		"of a role":       {"$$s", `{"$acl":{"$r":"$admins"}}`, true},
		"of one of some":  {"$$s", `{"$acl":{"$r":"$all","$w":["someone"]}}`, true},
		"of no user":      {"$$s", `{"$acl":{"$d":[]}}`, true},
		"not to be read":  {"$$s", `{"$acl":5}`, true},
		"of all streams":  {"$settings", `{"$userStreamAcl":{"$r":"$admins"}}`, true},
		"of all users":    {"$$s", `{"$acl":{"$r":"$all","$w":["$all","ops"]}}`, true},
		"without rights":  {"$$s", `{"$acl":{}}`, false},
		"none":            {"$$s", `{"$maxCount":5}`, false},
		"of other events": {"s", `{"$acl":{"$r":"$admins"}}`, false},
	} {
		for node, client := range clients {
			_, err := client.AppendToStream(t.Context(), c.stream, esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}},
				event("$metadata", c.data))
			if refused := err != nil; refused != (c.refused && node != "private") ||
				refused && !strings.Contains(err.Error(), "$acl") {
				t.Errorf("%s, on a %s node: %v", name, node, err)
			}
		}
	}
}

func as(ctx context.Context, user, password string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization",
		"Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// A wrong password is refused and logged without saying what it was; package guard shows how late.
func TestWrongPasswordsAreLogged(t *testing.T) {
	t.Parallel()
	var logged nodetest.Log
	s := serve(t, node.Config{
		User:       "admin",
		Password:   "right",
		GuessDelay: time.Millisecond,
		Logger:     slog.New(slog.NewTextHandler(&logged, nil)),
	})
	connection := rawConnection(t, s)
	// it names no stream
	for password, want := range map[string]codes.Code{"wrong": codes.Unauthenticated, "right": codes.InvalidArgument} {
		err := connection.Invoke(as(t.Context(), "admin", password), "/event_store.client.streams.Streams/Delete",
			&streams.DeleteReq{}, &streams.DeleteResp{})
		assert.Equal(t, status.Code(err), want, "%s password: %v", password, err)
	}
	text := logged.String()
	assert.True(t, strings.Contains(text, "wrong user or password") && !strings.Contains(text, "admin"), "logged %s", text)
}

// A caller without credentials is refused by the headers alone: no message is needed, and messages take no memory.
func TestCredentialsComeBeforeMessages(t *testing.T) {
	t.Parallel()
	s := serveSecured(t)
	// such calls come through the web server
	either := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
	beside := must.Get(grpc.NewClient(s.listenTCP(t), grpc.WithTransportCredentials(credentials.NewTLS(either))))(t)
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
				assert.Equal(t, status.Code(err), codes.PermissionDenied, "before a message: %v", err)
				if call, err = connection.NewStream(ctx, desc, "/event_store.client."+method); err == nil {
					_ = call.SendMsg(large) // it may have been refused by then
					err = call.RecvMsg(&shared.Empty{})
				}
				assert.Equal(t, status.Code(err), codes.PermissionDenied, "with a large message: %v", err)
			})
		}
		t.Run(name+"/public calls", func(t *testing.T) {
			t.Parallel()
			must.Get(gossip.NewGossipClient(connection).Read(t.Context(), &shared.Empty{}))(t)
			err := connection.Invoke(t.Context(), gossip.Gossip_Read_FullMethodName, large, &gossip.ClusterInfo{})
			assert.Equal(t, status.Code(err), codes.ResourceExhausted, "a large message: %v", err)
		})
	}
}
