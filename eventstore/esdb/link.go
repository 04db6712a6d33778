package esdb

import (
	"context"
	"encoding/base64"
	"errors"
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
	address   string
	conn      *grpc.ClientConn
	streams   streams.StreamsClient
	heard     *atomic.Uint64
	gone      chan struct{} // closed when the connection is lost, or given up
	once      sync.Once
	asking    atomic.Bool // others are being asked whether it still leads
	noBatches atomic.Bool // the server refuses BatchAppend

	mu    sync.Mutex
	batch *batch // the current call of all appends; nil before the first
}

// end closes the connection: all calls on it fail at once.
func (l *link) end() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.conn.Close()
	})
}

// lostBy reports whether a call failed because the connection did. The call may notice a moment before the link.
func (l *link) lostBy(ctx context.Context, err error) bool {
	if code := codeOf(err); code != codes.Unavailable && code != codes.Canceled {
		return false
	}
	moment, cancel := context.WithTimeout(ctx, searchPause)
	defer cancel()
	select {
	case <-l.gone:
		return true
	case <-moment.Done():
		return false
	}
}

// connect returns a connection on which nothing was sent yet.
func (s *connection) connect(address string) (*grpc.ClientConn, error) {
	dialing := backoff.Config{
		BaseDelay:  searchPause,
		Multiplier: 1.6,
		Jitter:     0.2,
		MaxDelay:   time.Second,
	}
	options := []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithWriteBufferSize(socketBuffer), grpc.WithReadBufferSize(socketBuffer),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: dialing, MinConnectTimeout: s.probeTimeout()}),
		grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}
	if s.settings.dial != nil {
		options = append(options, grpc.WithContextDialer(s.settings.dial))
	}
	if s.settings.pingEvery > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: s.settings.pingEvery, Timeout: s.settings.pingTimeout, PermitWithoutStream: true,
		}))
	}
	if s.tls != nil {
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(s.tls)))
		if s.settings.user != "" && s.settings.password != "" {
			options = append(options, grpc.WithPerRPCCredentials(basic("Basic "+base64.StdEncoding.EncodeToString(
				[]byte(s.settings.user+":"+s.settings.password)))))
		}
	}
	return grpc.NewClient(address, options...)
}

// dial returns a link, after the member has answered.
func (s *connection) dial(ctx context.Context, address string) (*link, error) {
	conn, err := s.connect(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.probeTimeout())
	defer cancel()
	_, err = serverfeatures.NewServerFeaturesClient(conn).GetSupportedMethods(ctx, &shared.Empty{})
	if err = refused(err, nil); err != nil && codeOf(err) != codes.Unimplemented && codeOf(err) != codes.NotFound {
		return nil, errors.Join(err, conn.Close())
	}
	return &link{
		address: address,
		conn:    conn,
		streams: streams.NewStreamsClient(conn),
		heard:   &s.heard,
		gone:    make(chan struct{}),
	}, nil
}

func (s *connection) probeTimeout() time.Duration {
	if s.several() {
		return probeTimeout
	}
	return onlyTimeout
}

// watch drops the link as soon as its connection breaks.
func (s *connection) watch(l *link) {
	for state := l.conn.GetState(); state == connectivity.Ready; state = l.conn.GetState() {
		if !l.conn.WaitForStateChange(s.ctx, state) {
			break
		}
	}
	s.drop(l)
}

// basic is the header with the user's credentials. It is sent through encrypted connections only.
type basic string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b basic) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (basic) RequireTransportSecurity() bool { return true }
