package httpapi_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"carillon/eventstore"
)

// lossy is a store that goes away right after it has recorded something in a stream of one category, before it says so.
type lossy struct {
	eventstore.Store

	category string
	away     atomic.Bool
	armed    atomic.Bool
}

func (l *lossy) Append(ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed) (eventstore.Appended, error) {
	if l.away.Load() {
		return eventstore.Appended{}, eventstore.ErrUnavailable
	}
	appended, err := l.Store.Append(ctx, stream, expected, events)
	if err == nil && strings.HasPrefix(stream, l.category+"-") && l.armed.CompareAndSwap(true, false) {
		l.away.Store(true)
		return eventstore.Appended{}, eventstore.ErrUnavailable
	}
	return appended, err
}

func (l *lossy) Read(ctx context.Context, stream string, from eventstore.Revision) iter.Seq2[eventstore.Recorded, error] {
	if l.away.Load() {
		return func(yield func(eventstore.Recorded, error) bool) {
			yield(eventstore.Recorded{}, eventstore.ErrUnavailable)
		}
	}
	return l.Store.Read(ctx, stream, from)
}

// TestALostAnswerBlocksNoName: the event store recorded something and the request failed all the same. Tried again, it
// does what it would have done; it does not collide with itself.
func TestALostAnswerBlocksNoName(t *testing.T) {
	t.Parallel()
	for _, category := range []string{"externalid", "destination", "subscription"} {
		for _, method := range []string{"POST", "PUT"} {
			t.Run(method+" "+category, func(t *testing.T) {
				t.Parallel()
				s := serve(t)
				parent := s.destination(t, "parent")
				store := &lossy{Store: s.Commands.Store, category: category}
				s.Commands.Store = store
				collection, ref := destinationsPath, "crm"
				more := `"name":"CRM","config":{"url":"` + receiverURL(t, 204) + `"}`
				if category == "subscription" {
					collection, more = destinationsPath+"/"+parent.ID+"/subscriptions", `"eventTypes":["*"],"scopeKind":"all"`
				}
				in := request{method: method, path: collection + "/" + ref, body: "{" + more + "}"}
				if method == "POST" {
					in.path, in.body = collection, `{"externalId":"`+ref+`",`+more+`}`
				}
				store.armed.Store(true)
				s.do(t, in).refused(t, 503, "SERVICE_UNAVAILABLE", "")
				store.away.Store(false)

				again := s.do(t, in)
				switch {
				case category == "externalid": // reserved and not yet created
					again.into(t, 201, new(any))
				case method == "PUT":
					again.into(t, 200, new(any))
				default:
					again.refused(t, 409, "ALREADY_EXISTS", `"crm"`)
				}
				s.do(t, request{path: collection + "/" + ref}).into(t, 200, new(any))
			})
		}
	}
}
