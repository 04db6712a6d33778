package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/item"
)

func TestFeedbackIsAdditive(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.filledFeed(t)
	reader := s.share(t, w.feed)
	path, id := feedsPath+"/"+w.feed, w.item
	longest := strings.Repeat("é", 5000)
	given := []struct{ key, body, rating, comment string }{
		{"", `{"rating":"positive"}`, "positive", ""},
		{"", `{"rating":"positive"}`, "positive", ""}, // the same again is another
		{"", `{"rating":"negative","comment":"Too loud"}`, "negative", "Too loud"},
		{reader, `{"rating":"neutral","comment":"` + longest + `"}`, "neutral", longest},
	}
	type opinion struct{ ID, Rating, Comment string }
	var want, recorded, rows []opinion
	for _, in := range given {
		var data map[string]string
		s.do(t, request{
			method: "POST",
			path:   path + "/items/" + id + "/feedback",
			key:    in.key,
			body:   in.body,
		}).into(t, 200, &data)
		if len(data) != 1 || uuid.Validate(data["id"]) != nil {
			t.Errorf("data = %v", data)
		}
		want = append(want, opinion{data["id"], in.rating, in.comment})
	}
	organizations := map[uuid.UUID]bool{}
	for e, err := range s.Store.Read(t.Context(), "item-"+id, 1) {
		if err != nil {
			t.Fatal(err)
		}
		event, err := item.Events.Decode(&e)
		if err != nil {
			t.Fatal(err)
		}
		f := event.(item.FeedbackGiven)
		recorded = append(recorded, opinion{f.FeedbackID.String(), f.Rating, f.Comment})
		organizations[f.Organization] = true
	}
	if diff := cmp.Diff(want, recorded); diff != "" || len(organizations) != 2 || !organizations[s.org] {
		t.Errorf("recorded by %v (-want +got):\n%s", organizations, diff)
	}
	for _, o := range want {
		got := opinion{ID: o.ID}
		if err := s.Pool.QueryRow(t.Context(), "SELECT rating, comment FROM items.feedback WHERE id = $1 AND item_id = $2 "+
			"AND feed_id = $3", o.ID, id, w.feed).
			Scan(&got.Rating, &got.Comment); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, got)
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("for analysts (-want +got):\n%s", diff)
	}
}

func TestFeedbackIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.filledFeed(t)
	_, empty := s.eventFeed(t)
	path, id := feedsPath+"/"+w.feed, w.item
	for body, want := range map[string][2]string{
		`{}`:                               {"rating", "is required"},
		`{"comment":"x"}`:                  {"rating", "is required"},
		`{"rating":"great"}`:               {"rating", "must be one of positive, negative, neutral"},
		`{"rating":""}`:                    {"rating", "must be one of"},
		`{"rating":"Positive"}`:            {"rating", "must be one of"},
		`{"rating":null}`:                  {"rating", "must not be null"},
		`{"rating":5}`:                     {"rating", "must be a string, not a number"},
		`{"rating":"neutral","comment":1}`: {"comment", "must be a string, not a number"},
		`{"rating":"neutral","comment":"` + strings.Repeat("é", 5001) + `"}`: {"comment",
			"must have at most 5000 characters"},
		`{"rating":"neutral","comment":"` + strings.Repeat(" ", 5001) + `"}`: {"comment",
			"must have at most 5000 characters"},
		`{"rating":"neutral","comment":"\u0000"}`: {"comment", "must not contain"},
		`{"rating":"neutral","stars":5}`:          {"stars", "is not a known field"},
	} {
		s.do(t, request{method: "POST", path: path + "/items/" + id + "/feedback", body: body}).blames(t, want[0], want[1])
	}
	for at, field := range map[string]string{
		path + "/items/7/feedback": "itemId", feedsPath + "/7/items/" + id + "/feedback": "feedId",
	} {
		got := s.do(t, request{method: "POST", path: at, body: `{"rating":"neutral"}`})
		got.refused(t, 400, "BAD_REQUEST", field+" must be a UUID")
	}
	_, stranger := s.Organization(t, "Stranger")
	for _, in := range []request{
		{path: path + "/items/" + uuid.NewString()}, {path: empty + "/items/" + id},
		{path: feedsPath + "/" + uuid.NewString() + "/items/" + id},
		{path: path + "/items/" + id, key: stranger}, {path: path + "/items/" + s.happening("Concert").String()},
	} {
		in.method, in.path, in.body = "POST", in.path+"/feedback", `{"rating":"neutral"}`
		s.do(t, in).refused(t, 404, "NOT_FOUND", "item not found")
	}
	if events := s.EventTypes(t, "item-"+id); len(events) != 1 {
		t.Errorf("refused requests recorded %v", events)
	}
}
