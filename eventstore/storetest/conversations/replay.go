package conversations

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"         // the methods that conversations name
	_ "github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures" // the same
	_ "github.com/EventStore/EventStore-Client-Go/v4/protos/streams"        // the same
)

const (
	callTimeout    = 10 * time.Second
	receiveTimeout = 5 * time.Second
	maxMessage     = 64 << 20
)

// Server is one that conversations are replayed against.
type Server struct {
	Address  string      // host:port
	TLS      *tls.Config // nil means without TLS
	User     string      // Optional. Sent with each call whose conversation names no headers.
	Password string
}

// replay is a conversation that is being replayed.
type replay struct {
	server Server
	exact  bool // UNKNOWN stands for itself alone
	*values

	connection *grpc.ClientConn
	open       map[string]*openCall
}

// openCall is a call that stays open between steps. A goroutine receives, so that waiting for a message can end.
type openCall struct {
	method  protoreflect.MethodDescriptor
	stream  grpc.ClientStream
	cancel  context.CancelFunc
	arrived chan proto.Message // closed at the end of the call
	err     error              // set before arrived is closed
}

// Replay runs a conversation and returns the first difference.
func Replay(ctx context.Context, server Server, c Conversation) error {
	transport := insecure.NewCredentials()
	if server.TLS != nil {
		transport = credentials.NewTLS(server.TLS)
	}
	connection, err := grpc.NewClient("passthrough:///"+server.Address, grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &replay{
		server:     server,
		exact:      c.Ours != "",
		values:     newValues(),
		connection: connection,
		open:       map[string]*openCall{},
	}
	defer func() {
		cancel()
		_ = connection.Close() // every answer has been compared
	}()
	for i, s := range c.Steps {
		if err := r.step(ctx, s); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func (r *replay) step(ctx context.Context, s step) error {
	switch {
	case s.HTTP != "":
		return r.http(ctx, s)
	case s.Open != "":
		return r.start(ctx, s)
	case s.Call != "":
		return r.call(ctx, s)
	case s.Pause > 0:
		pause(ctx, s.Pause)
		return nil
	}
	for _, name := range []string{s.Send, s.Receive, s.Silent, s.Ended, s.Half, s.Cancel} {
		if call := r.open[name]; name != "" && call != nil {
			return r.stepOf(ctx, call, s)
		}
	}
	return errors.New("an invalid step, or of a call that is not open")
}

func (r *replay) stepOf(ctx context.Context, call *openCall, s step) error {
	switch {
	case s.Send != "":
		return r.send(call, s.Messages)
	case s.Receive != "":
		return r.receive(ctx, call, s)
	case s.Silent != "":
		return r.silent(ctx, call, s)
	case s.Ended != "":
		message := call.next(ctx, callTimeout, s.Skip)
		if message != nil {
			return fmt.Errorf("expected the end of the call, received %v", message)
		}
		return r.matchStatus(s.Status, call.err, call.stream)
	case s.Half != "":
		return call.stream.CloseSend()
	}
	call.cancel()
	return nil
}

// method finds a method by the short name of its service, such as Streams.Append.
func method(name string) (found protoreflect.MethodDescriptor, err error) {
	service, call, _ := strings.Cut(name, ".")
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if s := file.Services().ByName(protoreflect.Name(service)); s != nil {
			found = s.Methods().ByName(protoreflect.Name(call))
		}
		return found == nil
	})
	if found == nil {
		return nil, fmt.Errorf("no method %s", name)
	}
	return found, nil
}

func (r *replay) dial(ctx context.Context, s step) (*openCall, error) {
	m, err := method(s.Call)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	switch {
	case s.Headers != nil:
		ctx = metadata.NewOutgoingContext(ctx, metadata.New(s.Headers))
	case r.server.User != "":
		login := base64.StdEncoding.EncodeToString([]byte(r.server.User + ":" + r.server.Password))
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Basic "+login)
	}
	stream, err := r.connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()))
	if err != nil {
		cancel()
		return nil, err
	}
	call := &openCall{
		method:  m,
		stream:  stream,
		cancel:  cancel,
		arrived: make(chan proto.Message, 1<<12),
	}
	return call, nil
}

// pump receives until the call ends.
func (c *openCall) pump() {
	defer close(c.arrived)
	for {
		message, err := newMessage(c.method.Output())
		if err == nil {
			err = c.stream.RecvMsg(message)
		}
		if err != nil {
			c.err = err
			return
		}
		c.arrived <- message
	}
}

// next returns the next message that has no field named in skip, or nil when the call or the time has ended.
func (c *openCall) next(ctx context.Context, limit time.Duration, skip []string) proto.Message {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		select {
		case message := <-c.arrived:
			if message == nil || !has(message.ProtoReflect(), skip) {
				return message
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func has(message protoreflect.Message, names []string) bool {
	for _, name := range names {
		if field := message.Descriptor().Fields().ByName(protoreflect.Name(name)); field != nil && message.Has(field) {
			return true
		}
	}
	return false
}

func (r *replay) send(call *openCall, messages []any) error {
	for i, tree := range messages {
		message, err := parseMessage(call.method.Input(), r.expand(tree))
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if err := call.stream.SendMsg(message); errors.Is(err, io.EOF) {
			return nil // the call has ended; receiving says how
		} else if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

func (r *replay) start(ctx context.Context, s step) error {
	call, err := r.dial(ctx, s)
	if err != nil {
		return err
	}
	r.open[s.Open] = call
	if err := r.send(call, s.Request); err != nil {
		return err
	}
	if !call.method.IsStreamingClient() {
		if err := call.stream.CloseSend(); err != nil {
			return err
		}
	}
	go call.pump()
	return nil
}

func (r *replay) call(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	call, err := r.dial(ctx, s)
	if err != nil {
		return err
	}
	if err := errors.Join(r.send(call, s.Request), call.stream.CloseSend()); err != nil {
		return err
	}
	go call.pump()
	received := make([]any, 0, len(s.Response))
	for message := range call.arrived {
		got, err := tree(message.ProtoReflect())
		if err != nil {
			return err
		}
		received = append(received, got)
	}
	if err := r.matchStatus(s.Status, call.err, call.stream); err != nil {
		return fmt.Errorf("%s: %w", s.Call, err)
	}
	if err := r.match("response", orEmpty(s.Response), received); err != nil {
		return fmt.Errorf("%s: %w", s.Call, err)
	}
	return nil
}

func orEmpty(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

func (r *replay) receive(ctx context.Context, call *openCall, s step) error {
	for i, expected := range s.Messages {
		message := call.next(ctx, receiveTimeout, s.Skip)
		if message == nil {
			return fmt.Errorf("message %d: expected %s, received none (%w)", i, shown(expected), call.err)
		}
		got, err := tree(message.ProtoReflect())
		if err != nil {
			return err
		}
		if err := r.match(fmt.Sprintf("messages[%d]", i), expected, got); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) silent(ctx context.Context, call *openCall, s step) error {
	if message := call.next(ctx, time.Duration(s.Millis)*time.Millisecond, s.Skip); message != nil {
		return fmt.Errorf("expected no message, received %v", message)
	}
	select {
	case message, open := <-call.arrived:
		if !open {
			return fmt.Errorf("the call has ended: %w", call.err)
		}
		if !has(message.ProtoReflect(), s.Skip) {
			return fmt.Errorf("expected no message, received %v", message)
		}
	default:
	}
	return nil
}

// matchStatus compares how a call ended. UNKNOWN stands for a request that the recorded server did not validate: any
// refusal is right there, unless the conversation is one in which the node differs.
func (r *replay) matchStatus(expected json.RawMessage, ended error, stream grpc.ClientStream) error {
	var want callStatus
	if err := json.Unmarshal(expected, &want); err != nil {
		return err
	}
	if errors.Is(ended, io.EOF) {
		ended = nil
	}
	got := status.Code(ended)
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(`"` + want.Code + `"`)); err != nil {
		return err
	}
	if !r.exact && code == codes.Unknown && got != codes.OK && got != codes.DeadlineExceeded {
		return nil
	}
	if code != got {
		return fmt.Errorf("status: expected %s, received %w", code, orOK(ended))
	}
	trailers := map[string]any{}
	for name, list := range stream.Trailer() {
		if name != "content-type" && !strings.HasPrefix(name, "grpc-") { // of gRPC itself
			trailers[name] = strings.Join(list, ",")
		}
	}
	wanted := map[string]any{}
	for name, value := range want.Trailers {
		wanted[name] = value
	}
	return r.match("trailers", wanted, trailers)
}

var errOK = errors.New("OK")

func orOK(err error) error {
	if err == nil {
		return errOK
	}
	return err
}

func (r *replay) http(ctx context.Context, s step) error {
	verb, path, _ := strings.Cut(s.HTTP, " ")
	scheme, transport := "http://", &http.Transport{DisableKeepAlives: true}
	if r.server.TLS != nil {
		scheme = "https://"
		transport.TLSClientConfig = r.server.TLS.Clone()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, verb, scheme+r.server.Address+path, http.NoBody)
	if err != nil {
		return err
	}
	if r.server.User != "" {
		request.SetBasicAuth(r.server.User, r.server.Password)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if strconv.Itoa(response.StatusCode) != string(s.Status) {
		return fmt.Errorf("status: expected %s, received %d", s.Status, response.StatusCode)
	}
	received, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if received != s.Type {
		return fmt.Errorf("type: expected %q, received %q", s.Type, received)
	}
	return nil
}

func pause(ctx context.Context, millis int) {
	select {
	case <-time.After(time.Duration(millis) * time.Millisecond):
	case <-ctx.Done():
	}
}
