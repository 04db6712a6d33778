package node

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node/internal/quirks"
	"carillon/eventstore/node/internal/store"
)

// Trailer keys and values by which clients distinguish errors.
const (
	trailerException       = "exception"
	trailerStream          = "stream-name"
	trailerExpected        = "expected-version"
	trailerActual          = "actual-version"
	trailerMaxAppendSize   = "maximum-append-size"
	trailerMissingMetadata = "required-metadata-properties"

	exceptionAccessDenied    = "access-denied"
	exceptionStreamDeleted   = "stream-deleted"
	exceptionWrongVersion    = "wrong-expected-version"
	exceptionAppendSize      = "maximum-append-size-exceeded"
	exceptionMissingMetadata = "missing-required-metadata-property"
)

// rpcError is an error as clients see it: a status, and trailers that say more.
type rpcError struct {
	code     codes.Code
	message  string
	trailers metadata.MD
}

func (e *rpcError) Error() string { return e.message }

func failure(code codes.Code, message string, trailers ...string) *rpcError {
	return &rpcError{code: code, message: message, trailers: metadata.Pairs(trailers...)}
}

func denied(message string) *rpcError {
	return failure(codes.PermissionDenied, "Access Denied"+message, trailerException, exceptionAccessDenied)
}

func invalid(message string) *rpcError { return failure(codes.InvalidArgument, message) }

// errReadOnly has a code that clients don't try again after.
var errReadOnly = denied(": the node is read-only; nothing was written")

func streamDeleted(stream string) *rpcError {
	return failure(codes.FailedPrecondition, "stream '"+stream+"' is deleted",
		trailerException, exceptionStreamDeleted, trailerStream, stream)
}

func appendTooLarge() *rpcError {
	limit := strconv.Itoa(store.MaxAppendBytes)
	return failure(codes.InvalidArgument, "the append exceeds the limit of "+limit+" bytes",
		trailerException, exceptionAppendSize, trailerMaxAppendSize, limit)
}

func missingMetadata(key string) *rpcError {
	return failure(codes.InvalidArgument, "required metadata property \""+key+"\" is missing",
		trailerException, exceptionMissingMetadata, trailerMissingMetadata, keyType+","+keyContentType)
}

// answer turns any error into the one to return from a handler, and sets the trailers that belong to it.
func answer(ctx context.Context, stream string, err error) error {
	described := describe(stream, err)
	if described == nil {
		return nil
	}
	if len(described.trailers) > 0 {
		// This fails only without a call, as in a test of the handler alone.
		_ = grpc.SetTrailer(ctx, described.trailers)
	}
	return status.Error(described.code, described.message)
}

// describe returns the client's form of an error that concerns a stream; nil for nil.
func describe(stream string, err error) *rpcError {
	var (
		known     *rpcError
		wrong     *store.WrongRevisionError
		refusal   *quirks.Refusal
		unchanged interface{ GRPCStatus() *status.Status }
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &refusal):
		return failure(refusal.Code, refusal.Message, refusal.Trailers...)
	case errors.As(err, &wrong):
		return failure(codes.FailedPrecondition, wrong.Error(),
			trailerException, exceptionWrongVersion, trailerStream, wrong.Stream,
			trailerExpected, strconv.FormatInt(wrong.Expected.Number(), 10),
			trailerActual, strconv.FormatInt(wrong.Current, 10))
	case errors.Is(err, store.ErrStreamDeleted):
		return streamDeleted(stream)
	case errors.Is(err, store.ErrReadOnly):
		return errReadOnly
	case errors.Is(err, store.ErrFull):
		return failure(codes.ResourceExhausted, "the disk is full; nothing was written")
	case errors.Is(err, store.ErrInvalid):
		return invalid(err.Error())
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		return failure(codes.Unavailable, "the node is not available: "+err.Error())
	case errors.Is(err, context.Canceled):
		return failure(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return failure(codes.DeadlineExceeded, err.Error())
	case errors.As(err, &unchanged):
		return &rpcError{code: unchanged.GRPCStatus().Code(), message: unchanged.GRPCStatus().Message()}
	case errors.Is(err, store.ErrCorrupt):
		return failure(codes.DataLoss, err.Error())
	}
	return failure(codes.Internal, err.Error())
}

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

// metrics are what /metrics shows.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec // by method, of the node's methods
	inFlight *prometheus.GaugeVec
}

func newMetrics(n *Node) metrics {
	m := metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventstore_node_calls_total", Help: "Calls that were begun.",
		}, []string{"method"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "eventstore_node_calls", Help: "Calls in flight, subscriptions among them.",
		}, []string{"method"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.calls, m.inFlight,
		gauge("eventstore_node_position", "Position of the newest durable event.", func() float64 {
			return float64(n.store.Watermark())
		}),
		gauge("eventstore_node_database_bytes", "Size of the database on the disk.", func() float64 {
			return float64(n.store.DatabaseBytes())
		}),
		gauge("eventstore_node_disk_free_bytes", "Free space on the disk.", func() float64 {
			usage, err := n.store.Disk()
			if err != nil {
				return math.NaN() // some file systems don't report it
			}
			return float64(usage.AvailBytes)
		}),
		gauge("eventstore_node_refuses_writes", "1 while writes are refused: the disk is full, or the node read-only.",
			func() float64 {
				if n.Full() || n.config.ReadOnly {
					return 1
				}
				return 0
			}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "eventstore_node_wrong_passwords_total", Help: "Calls with a wrong user or password.",
		}, func() float64 { return float64(n.logins.Total()) }),
	)
	return m
}

// begin counts a call of a method that gRPC has found.
func (m metrics) begin(method string) (end func()) {
	name := strings.TrimPrefix(method, "/")
	m.calls.WithLabelValues(name).Inc()
	inFlight := m.inFlight.WithLabelValues(name)
	inFlight.Inc()
	return inFlight.Dec
}

func (m metrics) page() http.Handler { return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}) }
