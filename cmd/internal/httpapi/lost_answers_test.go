package httpapi_test

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore"
)

// lossy is a store that goes away right after it has recorded something in a stream of one category, before it says so.
type lossy struct {
	eventstore.Store

	category string
	armed    atomic.Bool
	away     atomic.Pointer[error] // its error while it is away
	lost     func()                // called when an answer is lost. Optional.
}

// leave makes it answer everything with an error until it is back.
func (l *lossy) leave(err error) { l.away.Store(&err) }

func (l *lossy) back() { l.away.Store(nil) }

func (l *lossy) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if err := l.away.Load(); err != nil {
		return eventstore.Appended{}, *err
	}
	appended, err := l.Store.Append(ctx, stream, expected, events)
	if err == nil && strings.HasPrefix(stream, l.category+"-") && l.armed.CompareAndSwap(true, false) {
		l.leave(eventstore.ErrUnavailable)
		l.lost()
		return eventstore.Appended{}, eventstore.ErrUnavailable
	}
	return appended, err
}

func (l *lossy) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	if err := l.away.Load(); err != nil {
		return func(yield func(eventstore.Recorded, error) bool) { yield(eventstore.Recorded{}, *err) }
	}
	return l.Store.Read(ctx, stream, from)
}

// The event store recorded something and the request failed all the same: the answer was lost, and the caller did not
// wait for another try. Tried again, it does what it would have done; it does not collide with itself.
func TestLostAnswerBlocksNoName(t *testing.T) {
	t.Parallel()
	for _, category := range []string{"externalid", "destination", "subscription"} {
		for _, method := range []string{"POST", "PUT"} {
			t.Run(method+" "+category, func(t *testing.T) {
				t.Parallel()
				s := serve(t)
				parent := s.destination(t, "parent")
				ctx, hangUp := context.WithCancel(t.Context())
				store := &lossy{Store: s.Commands.Store, category: category, lost: hangUp}
				s.Commands.Store = store
				collection, ref := destinationsPath, "crm"
				more := `"name":"CRM","config":{"url":"` + receiverURL(t, 204) + `"}`
				if category == "subscription" {
					collection, more = destinationsPath+"/"+parent.ID+"/subscriptions", `"eventTypes":["*"],"scopeKind":"all"`
				}
				in := request{
					method: method,
					path:   collection + "/" + ref,
					body:   "{" + more + "}",
					ctx:    ctx,
				}
				if method == "POST" {
					in.path, in.body = collection, `{"externalId":"`+ref+`",`+more+`}`
				}
				store.armed.Store(true)
				s.do(t, in).refused(t, 503, "SERVICE_UNAVAILABLE", "")
				if store.armed.Load() {
					t.Fatal("no answer was lost")
				}
				store.back()

				in.ctx = t.Context()
				again := s.do(t, in)
				switch {
				case category == "externalid": // reserved and not yet created
					again.into(t, 201, new(any))
				case method == "PUT":
					again.into(t, 200, new(any))
				default:
					again.refused(t, 409, "ALREADY_EXISTS", `"crm"`)
				}
				apitest.Eventually(t, "it can be read", func() bool {
					return s.do(t, request{path: collection + "/" + ref}).status == http.StatusOK
				})
			})
		}
	}
}

// Without the event store nothing is written, all is read, and the operator hears of it. (Its disk is full: that is not
// waited for, as an election is.)
func TestEventStoreGoneOnEveryRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	destination := s.subscribed(t, "crm")
	delivery := s.delivery(t, destination.ID)
	s.do(t, request{method: "PUT", path: "/events/notices", body: destinationBody(t, "")}).into(t, 201, new(any))
	w := s.filledFeed(t)
	event := s.detail(t, delivery).EventID
	fill := strings.NewReplacer("/events/events/{id}", "/events/events/"+event, "{ref}", "crm", "{subRef}", "all",
		"{id}", delivery, "{secretId}", destination.Secrets[0].ID)
	store := &lossy{Store: s.Commands.Store}
	s.Commands.Store = store
	store.leave(eventstore.ErrFull)
	for _, in := range surface {
		if strings.Contains(in.path, "/listen") {
			continue // it needs no event store, and its answer has no end
		}
		in.path = fill.Replace(in.path)
		s.withoutStore(t, in, strings.HasSuffix(in.path, "/validate") || strings.HasSuffix(in.path, "/test") ||
			strings.HasSuffix(in.path, "/backfill"))
	}
	for _, in := range feedSurface {
		s.withoutStore(t, w.in(in), false)
	}
	if !strings.Contains(s.Logged.String(), "level=WARN") {
		t.Error("the operator hears nothing of it")
	}
}

// withoutStore sends a request that reads, or says that it writes nothing, or one that is refused.
func (s *server) withoutStore(t *testing.T, in request, writesNothing bool) {
	t.Helper()
	if in.method == http.MethodGet || writesNothing {
		s.do(t, in).into(t, http.StatusOK, new(any))
		return
	}
	s.do(t, in).refused(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "the request itself was fine")
}
