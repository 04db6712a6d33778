package esdb

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	maxMessageBytes = 17 << 20
	// streamWindow and connWindow let a server send without asking how much more there is room for.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
	socketBuffer = 64 << 10
)

// link is a connection to one member that has answered at least once.
type link struct {
	address string
	conn    *grpc.ClientConn
	streams streams.StreamsClient
	batches *batches      // appends go this way; nil where the server has none
	gone    chan struct{} // closed when the connection is lost, or given up
	once    sync.Once
	asking  atomic.Bool // others are being asked whether it still leads
	heard   *atomic.Uint64
}

// end closes the connection: whatever is under way on it fails at once.
func (l *link) end() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.conn.Close()
	})
}

// lostBy reports whether a call failed because the connection did. The call may hear of it a moment before the link.
func (l *link) lostBy(ctx context.Context, err error) bool {
	if code := codeOf(err); code != codes.Unavailable && code != codes.Canceled {
		return false
	}
	moment := time.NewTimer(searchPause)
	defer moment.Stop()
	select {
	case <-l.gone:
		return true
	case <-ctx.Done():
	case <-moment.C:
	}
	return false
}

// connect makes a connection without a word being said on it yet.
func (s *Store) connect(address string) (*grpc.ClientConn, error) {
	dialing := backoff.Config{BaseDelay: searchPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
	options := []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithWriteBufferSize(socketBuffer), grpc.WithReadBufferSize(socketBuffer),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: dialing, MinConnectTimeout: s.probing()}),
		grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
	}
	if s.settings.dial != nil {
		options = append(options, grpc.WithContextDialer(s.settings.dial))
	}
	if s.settings.pingEvery > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: s.settings.pingEvery, Timeout: s.settings.pingWaits, PermitWithoutStream: true,
		}))
	}
	if s.tls == nil {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	} else {
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(s.tls)))
		if s.settings.user != "" && s.settings.password != "" {
			options = append(options, grpc.WithPerRPCCredentials(basic("Basic "+base64.StdEncoding.EncodeToString(
				[]byte(s.settings.user+":"+s.settings.password)))))
		}
	}
	return grpc.NewClient(address, options...)
}

// dial makes a link, once the member has said what it can do.
func (s *Store) dial(ctx context.Context, address string) (*link, error) {
	conn, err := s.connect(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.probing())
	defer cancel()
	methods, err := serverfeatures.NewServerFeaturesClient(conn).GetSupportedMethods(ctx, &shared.Empty{})
	if err = refused(err, nil); err != nil && codeOf(err) != codes.Unimplemented && codeOf(err) != codes.NotFound {
		return nil, errors.Join(err, conn.Close())
	}
	l := &link{address: address, conn: conn, streams: streams.NewStreamsClient(conn), gone: make(chan struct{}), heard: &s.heard}
	for _, method := range methods.GetMethods() {
		if method.GetMethodName() == "batchappend" && strings.HasSuffix(method.GetServiceName(), ".streams") {
			l.batches = newBatches(l)
		}
	}
	return l, nil
}

func (s *Store) probing() time.Duration {
	if s.several.Load() {
		return probeTimeout
	}
	return onlyTimeout
}

// watch gives the link up as soon as its connection breaks.
func (s *Store) watch(l *link) {
	for state := l.conn.GetState(); state == connectivity.Ready; state = l.conn.GetState() {
		if !l.conn.WaitForStateChange(s.ctx, state) {
			break
		}
	}
	s.drop(l)
}

// basic is the header that says who calls. It is sent through encrypted connections only.
type basic string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b basic) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (basic) RequireTransportSecurity() bool { return true }
