// Package stricttest makes a node as unkind as the real servers that a program may be run on.
package stricttest

import (
	"context"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"carillon/eventstore/node/internal/quirks"
	"carillon/eventstore/node/internal/store"
)

// Strict makes a node as unkind as real servers are, as node.Config.Quirks; a nil one changes nothing. A test that
// passes on such a node can be expected to pass on a cluster.
//
//   - A live subscription to $all is dropped when more than 32 events arrive at once. With Later it falls behind and
//     catches up, and is sent caught-up again, but never fell-behind.
//   - Filtered subscriptions get checkpoints at the start of pages and at 0/0, and none before they have caught up.
//   - A position that is neither an event's nor a checkpoint's can't be read from or subscribed from. With Later such a
//     subscription is confirmed before it is refused.
//   - A subscription to $all from beyond its end gets the next events; with Later only those beyond its position.
//   - A subscription to a stream that has no events yet is caught up after the first one.
//   - The head moves by unrequested system events.
//   - The data of an append may be 1 MiB; with Later, metadata and types count too.
//   - An id that was appended to two streams is remembered for one of them, if no revision is expected.
//   - An append that expects no stream is compared with the first events that the stream ever had: after a soft
//     delete its retry is a wrong expected version, and a deleted event is not written again, though it is answered
//     as written.
//   - While nothing is replicated (StopReplication), appends are not answered; a repeated one never is.
//
// Its other methods change the behaviour of the node from then on. The zero Strict is ready to use, by one node.
type Strict struct {
	// Later makes it 25.0 rather than 23.10: metadata and type count too, no subscription is dropped, and a checkpoint
	// may be past the newest event.
	Later bool
	// NoBatches makes it a server without BatchAppend, SaysBatches one that all the same says that it has it.
	NoBatches, SaysBatches bool
	// Costly lets an append take the processor time of a real server.
	Costly bool

	spending sync.Mutex
	together int       // appends that came at once
	spent    time.Time // when the last of them had taken its time

	mu       sync.Mutex
	leader   string // the node that leads instead; "" for this one
	until    time.Time
	deaf     int // answers to appends that are still to be lost
	appends  int
	held     map[string]struct{} // appends that wait for replication, by stream and first event
	resumed  chan struct{}       // closed when replication goes on; nil while it does
	repeated atomic.Int64
	dropped  atomic.Int64
	referred atomic.Int64
}

var _ quirks.Quirks = (*Strict)(nil)

const (
	strictLiveBuffer = 32
	strictStatistics = 8 // appends between two of the server's own
	strictUnknown    = "Unexpected ReadAllResult: InvalidPosition"
	strictInvalid    = "Trying to read from an invalid position"
	strictTooSlow    = "Consumer too slow to handle event while live. Client resubscription required."
)

// Follow makes the node a follower of another one, at host:port. It then refers clients that want the leader to it.
// With "" it leads again.
func (s *Strict) Follow(leader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = leader
}

// LoseLeader makes the node one of a cluster that elects: for a time it has no leader.
func (s *Strict) LoseLeader(length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(length)
}

// LoseAnswers lets the next n appends be recorded and time out.
func (s *Strict) LoseAnswers(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = n
}

// StopReplication makes the node the leader of a cluster whose followers are gone: appends are recorded, and answered
// once Replicate is called. A repeated append before that is left unanswered.
func (s *Strict) StopReplication() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.resumed = map[string]struct{}{}, make(chan struct{})
}

// Replicate ends StopReplication.
func (s *Strict) Replicate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.resumed)
	s.held, s.resumed = nil, nil
}

// Held counts the appends that wait for Replicate, and the repeated ones, which are never answered.
func (s *Strict) Held() (waiting int, repeated int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), s.repeated.Load()
}

// Any implements quirks.Quirks.
func (s *Strict) Any() bool { return s != nil }

// Batches implements quirks.Quirks.
func (s *Strict) Batches() (work, offered bool) {
	return s == nil || !s.NoBatches, s == nil || !s.NoBatches || s.SaysBatches
}

// Hold implements quirks.Quirks.
func (s *Strict) Hold(stream string, first store.EventID) (resumed <-chan struct{}, again bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resumed == nil {
		return nil, false
	}
	key := string(first[:]) + stream
	if _, again = s.held[key]; again {
		s.repeated.Add(1)
		return nil, true
	}
	s.held[key] = struct{}{}
	return s.resumed, false
}

// Dropped counts the subscriptions that the node has dropped as too slow, Referred the calls it has referred to its
// leader.
func (s *Strict) Dropped() int64 { return s.dropped.Load() }

// Referred is described at Dropped.
func (s *Strict) Referred() int64 { return s.referred.Load() }

// Led implements quirks.Quirks.
func (s *Strict) Led(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if wanted := metadata.ValueFromIncomingContext(ctx, "requires-leader"); len(wanted) == 0 || wanted[0] != "true" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return failure(codes.Unavailable, "Server Is Not Ready")
	}
	if s.leader == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(s.leader)
	if err != nil {
		return failure(codes.Unknown, "No leader info available in response")
	}
	s.referred.Add(1)
	return failure(codes.NotFound, "Leader info available",
		"exception", "not-leader", "leader-endpoint-host", host, "leader-endpoint-port", port)
}

// Members implements quirks.Quirks.
func (s *Strict) Members(own *gossip.MemberInfo) []*gossip.MemberInfo {
	if s == nil {
		return []*gossip.MemberInfo{own}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []*gossip.MemberInfo{own}
	if s.leader != "" {
		own.State = gossip.MemberInfo_Follower
		if host, port, err := net.SplitHostPort(s.leader); err == nil {
			if number, err := strconv.ParseUint(port, 10, 16); err == nil {
				list = append(list, &gossip.MemberInfo{
					State:        gossip.MemberInfo_Leader,
					IsAlive:      true,
					TimeStamp:    own.GetTimeStamp(),
					HttpEndPoint: &gossip.EndPoint{Address: host, Port: uint32(number)},
				})
			}
		}
	}
	if time.Now().Before(s.until) {
		own.State = gossip.MemberInfo_Unknown
		return list[:1]
	}
	return list
}

// Size implements quirks.Quirks.
func (s *Strict) Size(event *store.EventContent) int {
	if s == nil || !s.Later {
		return len(event.Data) // a limit that no client of any server meets first
	}
	return len(event.Data) + len(event.Metadata) + 2*len(utf16.Encode([]rune(event.Type)))
}

// Appends cost as on real servers: one alone takes appendCost, and n that come at once take it n to the power of
// togetherCost times, up to maxTogether. So one alone takes 2 ms, and 16 take 0.76 ms each; measured were 1.5 to 2.6
// and 0.65 to 0.97 ms.
const (
	appendCost   = 2 * time.Millisecond
	togetherCost = 0.65
	maxTogether  = 64
	atOnce       = 100 * time.Microsecond // between those that come at once
)

// Spend implements quirks.Quirks.
func (s *Strict) Spend() {
	if s == nil || !s.Costly {
		return
	}
	s.spending.Lock()
	defer s.spending.Unlock()
	if s.together == maxTogether || time.Since(s.spent) > atOnce {
		s.together = 0
	}
	s.together++
	cost := math.Pow(float64(s.together), togetherCost) - math.Pow(float64(s.together-1), togetherCost)
	for until := time.Now().Add(time.Duration(cost * float64(appendCost))); s.spent.Before(until); {
		s.spent = time.Now()
	}
}

// Recorded implements quirks.Quirks. Now and then the server writes a system event.
func (s *Strict) Recorded(log *store.Store) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.appends++
	statistics, deaf := s.appends%strictStatistics == 0, s.deaf > 0
	if deaf {
		s.deaf--
	}
	s.mu.Unlock()
	if statistics {
		id := uuid.New()
		event := store.Propose(store.EventContent{
			Stream: "$stats-127.0.0.1:2113",
			ID:     store.EventID(id),
			Type:   "$statsCollected",
			JSON:   true,
			Data:   []byte("{}"),
		})
		// No append waits for it.
		if _, err := log.Start(context.Background(), "$stats-127.0.0.1:2113", store.Any(),
			[]store.Proposed{event}); err != nil {
			return err
		}
	}
	if deaf {
		return context.DeadlineExceeded
	}
	return nil
}

// Readable implements quirks.Quirks. Positions that only checkpoints have are known by their second half. A
// subscription may begin beyond the end.
func (s *Strict) Readable(log *store.Store, commit, prepare uint64, subscribing bool) error {
	if s == nil || commit == 0 || prepare == 0 || commit == math.MaxUint64 || subscribing && commit > log.Watermark() {
		return nil
	}
	found := false
	if _, _, err := log.ReadAll(commit-1, func(record store.Record) bool {
		found = record.Position == commit
		return false
	}); err != nil {
		return err
	}
	switch {
	case found:
		return nil
	case subscribing && s.Later:
		return failure(codes.InvalidArgument, strictInvalid)
	}
	return failure(codes.Unknown, strictUnknown)
}

// Subscription implements quirks.Quirks.
func (s *Strict) Subscription() quirks.Subscription {
	if s == nil {
		return quirks.None{}.Subscription()
	}
	sent := &checkpoints{later: s.Later}
	if s.Later {
		return quirks.Subscription{
			ConfirmsFirst: true,
			AwaitsBeyond:  true,
			Behind:        strictLiveBuffer,
			Page:          sent.page,
		}
	}
	return quirks.Subscription{Overrun: strictLiveBuffer, Page: sent.page, Drop: func() error {
		s.dropped.Add(1)
		return failure(codes.Aborted, "Operation timed out: "+strictTooSlow)
	}}
}

func failure(code codes.Code, message string, trailers ...string) error {
	return &quirks.Refusal{Code: code, Message: message, Trailers: trailers}
}

// checkpoints are those of a subscription that catches up.
type checkpoints struct {
	later bool
	pages int
}

// page returns the start of a page before the head: 0/0 for the first one. If the last event ends a page, some servers
// send a position past the newest event.
func (c *checkpoints) page(began, last uint64, end bool) (list []*streams.ReadResp) {
	if c.pages++; c.pages == 1 {
		began = 0
	}
	if !end || c.pages == 1 {
		list = append(list, quirks.Checkpoint(began, 0))
	}
	if end && c.later && c.pages%2 == 1 {
		list = append(list, quirks.Checkpoint(last+1, 0))
	}
	return list
}
