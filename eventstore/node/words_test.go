package node_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	pb "github.com/EventStore/EventStore-Client-Go/v4/protos/persistent"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Clients learn that persistent subscriptions are missing, whether they ask first or not.
func TestPersistentSubscriptionsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	groups := pb.NewPersistentSubscriptionsClient(rawConnection(t, s))
	read, err := groups.Read(t.Context())
	must.OK(t, err)
	_, readErr := read.Recv()
	_, createErr := groups.Create(t.Context(), &pb.CreateReq{})
	_, listErr := groups.List(t.Context(), &pb.ListReq{})
	for name, err := range map[string]error{"read": readErr, "create": createErr, "list": listErr} {
		assert.True(t, status.Code(err) == codes.Unimplemented &&
			strings.Contains(err.Error(), "persistent subscriptions are not supported"), "%s: %v", name, err)
	}
	client := s.client(t)
	err = client.CreatePersistentSubscription(t.Context(), "s", "g", esdb.PersistentStreamSubscriptionOptions{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "not supported"), "the official client: %v", err)
	err = client.CreatePersistentSubscriptionToAll(t.Context(), "g", esdb.PersistentAllSubscriptionOptions{})
	assert.Equal(t, code(err), esdb.ErrorCodeUnsupportedFeature, "the official client, on $all: %v", err)
}

func TestFeaturesThatClientsLookFor(t *testing.T) {
	t.Parallel()
	said := must.Get(serverfeatures.NewServerFeaturesClient(rawConnection(t, serve(t, node.Config{}))).
		GetSupportedMethods(t.Context(), &shared.Empty{}))(t)
	want := map[string]string{
		"event_store.client.streams.streams/read":        "position events",
		"event_store.client.streams.streams/batchappend": "deadline_duration",
	}
	for _, method := range said.GetMethods() {
		assert.True(t, !strings.Contains(method.GetServiceName(), "persistent"), "offers %s", method)
		name := method.GetServiceName() + "/" + method.GetMethodName()
		if features, ok := want[name]; ok && features == strings.Join(method.GetFeatures(), " ") {
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing or different: %v", slices.Collect(maps.Keys(want)))
	}
}

// Clients before 20.6 know -1 as the highest number; all get the name of the missing stream.
func TestOlderClientsRead(t *testing.T) {
	t.Parallel()
	client := streams.NewStreamsClient(rawConnection(t, serve(t, node.Config{})))
	write := func(metadata map[string]string, trailers *metadata.MD) (*streams.AppendResp, error) {
		call := must.Get(client.Append(t.Context(), grpc.Trailer(trailers)))(t)
		for _, message := range []*streams.AppendReq{
			{Content: &streams.AppendReq_Options_{Options: &streams.AppendReq_Options{
				StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte("s")},
				ExpectedStreamRevision: &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}},
			}}},
			{Content: &streams.AppendReq_ProposedMessage_{ProposedMessage: &streams.AppendReq_ProposedMessage{
				Id: batchID(int64(len(*trailers) + 7)), Metadata: metadata,
			}}},
		} {
			must.OK(t, call.Send(message))
		}
		return call.CloseAndRecv()
	}
	var trailers metadata.MD
	if _, err := write(map[string]string{"type": "t"}, &trailers); status.Code(err) != codes.InvalidArgument ||
		first(trailers, "required-metadata-properties") != "type,content-type" {
		t.Errorf("%v, trailers %v", err, trailers)
	}
	complete := map[string]string{"type": "t", "content-type": "application/json"}
	must.Get(write(complete, &metadata.MD{}))(t)
	again, err := write(complete, &metadata.MD{"another": nil})
	detail := again.GetWrongExpectedVersion()
	assert.True(t, err == nil && detail.GetExpectedRevision_20_6_0() == 1<<64-1, "%v, %v", again, err)
}

// page gets a page, and says which version of HTTP it came by.
func page(t *testing.T, client *http.Client, url, user string) (code int, text, proto string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	if name, password, ok := strings.Cut(user, ":"); ok {
		request.SetBasicAuth(name, password)
	}
	response, err := client.Do(request)
	must.True(t, err == nil, "%s: %v", url, err)
	defer func() { _ = response.Body.Close() }()
	body := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(body), response.Proto
}

func browser(t *testing.T, protocols ...string) *http.Client {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			NextProtos:         protocols,
		}, //nolint:gosec // of the test's own certificate
		ForceAttemptHTTP2: len(protocols) > 1,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Container probes and monitoring use the port of gRPC.
func TestHTTPBesideGRPC(t *testing.T) {
	t.Parallel()
	plain := serve(t, node.Config{})
	secure := serveSecured(t)
	at, safely := plain.listenTCP(t), secure.listenTCP(t)
	appendTo(t, dial(t, "esdb://"+at+"?tls=false"), "s", esdb.NoStream{}, events(3)...)
	appendTo(t, dial(t, "esdb://admin:right@"+safely+"?tlsverifycert=false"), "s", esdb.NoStream{}, events(3)...)
	for name, c := range map[string]struct {
		client    *http.Client
		base      string
		user      string
		proto     string
		protected int
	}{
		"plain":            {browser(t), "http://" + at, "", "HTTP/1.1", 200},
		"TLS":              {browser(t), "https://" + safely, "admin:right", "HTTP/1.1", 200},
		"TLS without ALPN": {browser(t), "https://" + safely, "", "HTTP/1.1", 401},
		"HTTP/2":           {browser(t, "h2", "http/1.1"), "https://" + safely, "admin:right", "HTTP/2.0", 200},
	} {
		for path, want := range map[string]struct {
			code int
			text string
		}{
			"/health/live":              {204, ""},
			"/health/live?liveCode=200": {200, ""},
			"/info":                     {200, `"state": "leader"`},
			"/metrics":                  {c.protected, ""},
			"/streams/s":                {404, ""},
		} {
			code, text, proto := page(t, c.client, c.base+path, c.user)
			assert.True(t, code == want.code && strings.Contains(text, want.text) && proto == c.proto,
				"%s: %s: %d by %s: %s", name, path, code, proto, text)
			if basic := strings.Contains(text, `"type": "basic"`); path == "/info" && basic != (c.base == "https://"+safely) {
				t.Errorf("%s: authentication: %s", name, text)
			}
			if path == "/metrics" && code == 200 &&
				!strings.Contains(text, `eventstore_node_calls_total{method="event_store.client.streams.Streams/Append"} 1`) {
				t.Errorf("%s: metrics: %s", name, text)
			}
			if path != "/metrics" && path != "/streams/s" && code == 200 && text != "" && !json.Valid([]byte(text)) {
				t.Errorf("%s: %s is no JSON: %s", name, path, text)
			}
		}
	}
	response, err := http.Post("http://"+at+"/info", "text/plain", strings.NewReader("x")) //nolint:noctx // a test
	assert.True(t, err == nil && response.StatusCode == http.StatusMethodNotAllowed, "POST: %v, %v", response, err)
	if err == nil {
		_ = response.Body.Close()
	}
}

// Some clients' TLS offers both versions of HTTP and takes either.
func TestGRPCOfClientsThatOfferBoth(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{TLS: &tls.Config{
		Certificates: []tls.Certificate{certificate(t)},
		MinVersion:   tls.VersionTLS12,
	}})
	connection, err := grpc.NewClient(s.listenTCP(t), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}, //nolint:gosec // of the test's own certificate
	})))
	must.OK(t, err)
	defer func() { _ = connection.Close() }()
	if said, err := serverfeatures.NewServerFeaturesClient(connection).GetSupportedMethods(t.Context(),
		&shared.Empty{}); err != nil || len(said.GetMethods()) < 5 {
		t.Errorf("%v, %v", said, err)
	}
	subscription := must.Get(streams.NewStreamsClient(connection).Read(t.Context(), subscription("")))(t)
	must.Get(subscription.Recv())(t)
	s.stop(t) // with a call in progress
	again := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = again.Close() }()
	assert.Is(t, s.Serve(again), net.ErrClosed, "a closed node serves again")
}

// Connections that say nothing, or nonsense, cost the others nothing, and don't keep the node from closing.
func TestConnectionsThatSayNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	at := s.listenTCP(t)
	for _, begin := range []string{"", "P", "PRI", "PRI * HTTP/2.0\r\n", "GET /info HTTP/1.1\r\n", "\x16\x03\x01\x00"} {
		conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", at))(t)
		defer func() { _ = conn.Close() }()
		must.Get(io.WriteString(conn, begin))(t)
	}
	appendTo(t, dial(t, "esdb://"+at+"?tls=false"), "s", esdb.NoStream{}, events(1)...)
	code, _, _ := page(t, browser(t), "http://"+at+"/health/live", "")
	assert.True(t, code == http.StatusNoContent, "%d", code)
}
