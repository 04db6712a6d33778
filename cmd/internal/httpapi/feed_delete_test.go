package httpapi_test

import (
	"net/http"
	"slices"
	"testing"
)

func TestDeletedFeedIsGoneWithItsSourcesAndItems(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source := s.site(t)
	s.observe(t, source, s.concert("Concert", tomorrow()))
	made, path := s.eventFeed(t)
	_, other := s.eventFeed(t)
	association := s.attach(t, path, source)
	s.attach(t, other, source)
	reader := s.share(t, made.ID)
	item := path + "/items/" + s.items(t, path, 1)["Concert"]
	s.items(t, other, 1)
	s.do(t, request{method: "POST", path: item + "/feedback", body: `{"rating":"positive"}`}).into(t, 200, new(any))

	got := s.do(t, request{method: "DELETE", path: path})
	if got.status != http.StatusOK || got.body != `{"success":true}` {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	if events := s.EventTypes(t, "feed-"+made.ID); events[len(events)-1] != "feed.deleted.v1" {
		t.Errorf("recorded %v", events)
	}
	for _, in := range []request{
		{path: path}, {path: path + "/sources"}, {path: path + "/items"}, {path: "/v0" + path + "/items"}, {path: item},
		{method: "PATCH", path: path, body: `{"name":"x"}`}, {method: "DELETE", path: path},
		{method: "POST", path: path + "/sources", body: `{"sourceType":"site","sourceId":"` + source.String() + `"}`},
		{method: "DELETE", path: path + "/sources/" + association},
		{method: "POST", path: item + "/feedback", body: `{"rating":"positive"}`},
	} {
		s.do(t, in).refused(t, 404, "NOT_FOUND", "not found")
		in.key = reader
		s.do(t, in).refused(t, 404, "NOT_FOUND", "not found")
	}
	var list []feedView
	s.do(t, request{path: feedsPath}).into(t, 200, &list)
	if len(list) != 1 || list[0].ID == made.ID {
		t.Errorf("listed after the delete: %+v", list)
	}
	for _, table := range []string{"feeds.associations", "feeds.shares", "items.items", "items.occurrences",
		"items.attachments", "items.feedback"} {
		var rows int
		if err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE feed_id = $1", made.ID).
			Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%s keeps %d rows of the feed, %v", table, rows, err)
		}
	}
	s.items(t, other, 1) // the same event in another feed
}

// Observations after the delete do not bring the items back.
func TestDeletedFeedStaysEmpty(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source := s.site(t)
	made, path := s.eventFeed(t)
	_, other := s.eventFeed(t)
	s.attach(t, path, source)
	s.attach(t, other, source)
	s.do(t, request{method: "DELETE", path: path}).into(t, 200, nil)
	s.observe(t, source, s.concert("Late", tomorrow()))
	s.items(t, other, 1)
	var rows int
	if err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM items.items WHERE feed_id = $1", made.ID).
		Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d items, %v", rows, err)
	}
}

func TestConcurrentDeletes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	made, path := s.eventFeed(t)
	statuses := make(chan int, 8)
	for range cap(statuses) {
		go func() { statuses <- s.do(t, request{method: "DELETE", path: path}).status }()
	}
	count := map[int]int{}
	for range cap(statuses) {
		count[<-statuses]++
	}
	if count[200] != 1 || count[404] != 7 {
		t.Errorf("answers by status: %v", count)
	}
	if got := s.EventTypes(t, "feed-"+made.ID); !slices.Equal(got, []string{"feed.created.v1", "feed.deleted.v1"}) {
		t.Errorf("recorded %v", got)
	}
}
