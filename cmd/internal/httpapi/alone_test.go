package httpapi_test

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/item"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/cascade"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
)

// TestPartsTakenAway goes on, part by part, while one does not run, is held up or stands still. Each step has a
// separate organization.
func TestPartsTakenAway(t *testing.T) {
	alone := serveAlone(t)
	step := func(name string, take func(*server, *testing.T)) {
		t.Helper()
		t.Run(name, func(t *testing.T) { take(serveOn(t, alone.Fixture), t) })
	}
	step("no curation runs", (*server).feedbackOnDetached)
	step("one table is locked", (*server).detailWaitsForItsEvent)
	step("the cascade begins late", (*server).deletedSubscription)
	step("the cascade begins late, of a feed", (*server).deletedPinnedFeed)
	step("the read models stand still", (*server).enableWhileStill)
	alone.StartReadModels(t)
	step("the read models stand still, and go on", (*server).writesWhileStill)
}

// The read models are independent: if the delivery is there before its event, the answer waits for the event.
func (s *server) detailWaitsForItsEvent(t *testing.T) {
	t.Helper()
	destination := s.subscribed(t, "crm")
	held, err := s.Pool.Begin(t.Context()) // nothing gets into the read model of publications, which can be read
	if err == nil {
		_, err = held.Exec(t.Context(), "LOCK TABLE publications.publications IN SHARE MODE")
	}
	must.OK(t, err)
	release := sync.OnceFunc(func() { assert.OK(t, held.Rollback(context.WithoutCancel(t.Context()))) })
	defer release()
	s.rewire(t, func(p *httpapi.Dependencies) {
		await := p.Await
		p.Await = func(ctx context.Context, to eventstore.Position, consumers ...string) bool {
			release()
			return await(ctx, to, consumers...)
		}
	})
	event := must.Get(s.Commands.Publish(t.Context(), apitest.Operator, command.Publish{
		Type:         "news.item.added",
		Source:       "/news",
		Organization: s.org,
		Data:         []byte(`{"id":"7","title":"Storm"}`),
	}))(t)
	id := dispatch.DeliveryID(event.ID, uuid.MustParse(destination.ID))
	must.Eventually(t, "the delivery is there", func() bool {
		var there bool
		err := s.Pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM deliveries.deliveries WHERE id = $1)", id).
			Scan(&there)
		return err == nil && there
	})
	assert.Equal(t, string(s.detail(t, id.String()).Event.Data), `{"id":"7","title":"Storm"}`, "shown")
}

// The answer that says that a destination is enabled again has no failures of before, however late the read model is.
func (s *server) enableWhileStill(t *testing.T) {
	t.Helper()
	created := s.subscribed(t, "crm")
	id := s.delivery(t, created.ID)
	s.happens(t, id, s.attempt(t, created.ID, 1, 500, ""))
	patch := func(status string) destinationView {
		t.Helper()
		return into[destinationView](t, 200, s.patch(t, destinationsPath+"/crm", `{"status":"`+status+`"}`))
	}
	must.Eventually(t, "the failure is counted", func() bool { return patch("disabled").ConsecutiveFailures == 1 })
	s.StopReadModels()
	s.rewire(t, func(d *httpapi.Dependencies) {
		d.Await = func(context.Context, eventstore.Position, ...string) bool { return false }
	})
	if got := patch("enabled"); got.ConsecutiveFailures != 0 || got.LastFailureAt == nil {
		t.Errorf("%+v, want no failures and the time of the last", got)
	}
}

// cascade runs the cascade of deletions as soon as a delete waits for it, and not before.
func (s *server) cascade(t *testing.T) {
	t.Helper()
	holdings := adapters.Holdings{Runner: s.Runner, Queries: s.Queries, Vault: s.Commands.Vault}
	begin := sync.OnceFunc(func() {
		s.Process(t, func(*projections.Tables) eventstore.ProcessManager { return cascade.New(s.Store, holdings) })
	})
	s.rewire(t, func(d *httpapi.Dependencies) {
		d.Cascaded = func(ctx context.Context, to eventstore.Position) bool {
			begin()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apitest.Patience)
			defer cancel()
			return holdings.Cascaded(ctx, to)
		}
	})
}

// Right after the answer the deliveries of a deleted subscription are discarded, except those held by a worker.
func (s *server) deletedSubscription(t *testing.T) {
	t.Helper()
	s.cascade(t)
	destination := s.subscribed(t, "crm")
	waits, held := s.delivery(t, destination.ID), s.delivery(t, destination.ID)
	s.exec(t, markSent, held)
	s.delete(t, destinationsPath+"/crm/subscriptions/all").into(t, 200, nil)
	if d := s.detail(t, waits); d.Status != "discarded" || d.CompletedAt == nil || d.NextAttemptAt != nil {
		t.Errorf("the waiting one: %+v", d)
	}
	if d := s.detail(t, held); d.Status != "delivering" || d.CompletedAt != nil {
		t.Errorf("the one in flight: %+v", d)
	}
}

// A pin of a deleted feed is one whose access was lost.
func (s *server) deletedPinnedFeed(t *testing.T) {
	t.Helper()
	s.cascade(t)
	made, path := s.eventFeed(t)
	s.destination(t, "crm")
	pinning := destinationsPath + "/crm/subscriptions/downtown"
	body := `{"eventTypes":["event.*"],"scopeKind":"feeds","feeds":[{"feedType":"event","feedId":"` + made.ID + `"}]}`
	assert.True(t, into[subscriptionView](t, 201, s.put(t, pinning, body)).Active, "a new subscription is not active")
	s.delete(t, path).into(t, 200, nil)
	assert.True(t, !into[subscriptionView](t, 200, s.get(t, pinning)).Active,
		"the subscription is still active after the answer")
	s.patch(t, pinning, `{"active":true}`).refused(t, 404, "NOT_FOUND", "")
	s.put(t, pinning, body).refused(t, 404, "NOT_FOUND", "")
}

// The curation of feeds, which records that an item was removed, does not run here: an unreadable item takes no
// feedback all the same.
func (s *server) feedbackOnDetached(t *testing.T) {
	t.Helper()
	source := s.site(t)
	s.observe(t, source, s.concert("Concert", tomorrow()))
	made, path := s.eventFeed(t)
	association := s.attach(t, path, source)
	feedID, eventID := uuid.MustParse(made.ID), s.happening("Concert")
	id := item.ID(feedID, eventID)
	must.Get(item.Aggregate.Execute(t.Context(), s.Store, id, item.Add{
		FeedID:      feedID,
		HappeningID: eventID,
		SourceID:    source,
		At:          made.CreatedAt,
	}, item.Options{Metadata: eventstore.Metadata{Actor: "feed_curation"}}))(t)
	s.items(t, path, 1)
	feedback := request{method: "POST", path: path + "/items/" + id.String() + "/feedback", body: `{"rating":"neutral"}`}
	s.do(t, feedback).into(t, 200, new(any))
	s.delete(t, path+"/sources/"+association).into(t, 200, nil)
	s.do(t, feedback).refused(t, 404, "NOT_FOUND", "item not found")
	assert.Equal(t, len(s.EventTypes(t, "item-"+id.String())), 2, "recorded")
}

// full is an event store whose disk is full: that is not waited for, as an election is.
type full struct{ eventstore.Store }

func (full) Append(
	context.Context, string, eventstore.Revision, []eventstore.Proposed,
) (eventstore.Appended, error) {
	return eventstore.Appended{}, eventstore.ErrFull
}

func (full) Read(context.Context, string, eventstore.Revision) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) { yield(eventstore.Recorded{}, eventstore.ErrFull) }
}

// Without the event store nothing is written, all is read, and the operator hears of it.
func TestEventStoreGoneOnEveryRoute(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	delivery := s.delivery(t, destination.ID)
	s.put(t, "/events/notices", destinationBody(t, "")).into(t, 201, new(any))
	known := append(s.filledFeed(t).pairs(), "/events/events/{id}", s.eventPath(t, delivery),
		"{ref}", "crm", "{subRef}", "all", "{id}", delivery, "{secretId}", destination.Secrets[0].ID)
	s.Commands.Store = full{s.Commands.Store}
	for _, in := range surface {
		if strings.Contains(in.path, "/listen") {
			continue // it needs no event store, and its answer has no end
		}
		switch got := s.do(t, fill(in, known...)); in.path[strings.LastIndex(in.path, "/"):] {
		case "/validate", "/test", "/backfill": // write nothing here
			got.into(t, http.StatusOK, new(any))
		default:
			if in.method == http.MethodGet {
				got.into(t, http.StatusOK, new(any))
				continue
			}
			got.refused(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "the request itself was fine")
		}
	}
	assert.True(t, strings.Contains(s.Logged.String(), "level=WARN"), "the operator hears nothing of it")
}
