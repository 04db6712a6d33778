package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"carillon/eventstore/node"
)

func TestAppendedEventsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	client := start(t)
	written := event("ordered", `{"n":1}`)
	binary := esdb.EventData{
		EventID:     written.EventID,
		EventType:   "raw",
		ContentType: esdb.ContentTypeBinary,
		Data:        []byte{0, 1, 255},
	}
	result := appendTo(t, client, "order-1", esdb.NoStream{}, written, binary)
	if result.NextExpectedVersion != 1 || result.CommitPosition == 0 || result.CommitPosition != result.PreparePosition {
		t.Fatalf("result %+v", result)
	}
	list, err := readStream(client, "order-1", esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	first, second := list[0].Event, list[1].Event
	if first.EventID != written.EventID || first.EventType != "ordered" || first.StreamID != "order-1" ||
		first.ContentType != "application/json" || first.EventNumber != 0 || first.CreatedDate.IsZero() {
		t.Errorf("first event %+v", first)
	}
	if diff := cmp.Diff([]string{`{"n":1}`, `{"by":"test"}`},
		[]string{string(first.Data), string(first.UserMetadata)}); diff != "" {
		t.Error(diff)
	}
	if second.ContentType != "application/octet-stream" || second.EventNumber != 1 ||
		second.Position.Commit != result.CommitPosition || second.Position.Commit <= first.Position.Commit+1 {
		t.Errorf("second event %+v", second)
	}
}

func TestExpectedRevisions(t *testing.T) {
	t.Parallel()
	client := start(t)
	for _, c := range []struct {
		name     string
		existing int
		expected esdb.ExpectedRevision
		want     esdb.ErrorCode
	}{
		{"any of none", 0, esdb.Any{}, 0},
		{"any of some", 2, esdb.Any{}, 0},
		{"none of none", 0, esdb.NoStream{}, 0},
		{"none of some", 2, esdb.NoStream{}, esdb.ErrorCodeWrongExpectedVersion},
		{"exists of none", 0, esdb.StreamExists{}, esdb.ErrorCodeWrongExpectedVersion},
		{"exists of some", 2, esdb.StreamExists{}, 0},
		{"revision of none", 0, esdb.Revision(0), esdb.ErrorCodeWrongExpectedVersion},
		{"revision below", 2, esdb.Revision(0), esdb.ErrorCodeWrongExpectedVersion},
		{"revision equal", 2, esdb.Revision(1), 0},
		{"revision above", 2, esdb.Revision(2), esdb.ErrorCodeWrongExpectedVersion},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stream := strings.ReplaceAll(c.name, " ", "_")
			if c.existing > 0 {
				appendTo(t, client, stream, esdb.NoStream{}, events(c.existing)...)
			}
			result, err := client.AppendToStream(context.Background(), stream,
				esdb.AppendToStreamOptions{ExpectedRevision: c.expected}, event("more", `{}`))
			if c.want != 0 {
				if code(err) != c.want {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil || result.NextExpectedVersion != uint64(c.existing) {
				t.Fatalf("result %+v, error %v", result, err)
			}
		})
	}
}

func TestRepeatedAppendsWriteNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	first, second := events(2), events(3)
	one := appendTo(t, client, "s", esdb.NoStream{}, first...)
	two := appendTo(t, client, "s", esdb.Revision(1), second...)

	check := func(client *esdb.Client) {
		t.Helper()
		if diff := cmp.Diff(one, appendTo(t, client, "s", esdb.NoStream{}, first...)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(two, appendTo(t, client, "s", esdb.Revision(1), second...)); diff != "" {
			t.Error(diff)
		}
		for name, attempt := range map[string][]esdb.EventData{
			"other ids": events(2), "first then other": {first[0], event("x", "{}")}, "too many": append(second, events(1)...),
		} {
			expected := esdb.ExpectedRevision(esdb.NoStream{})
			if name == "too many" {
				expected = esdb.Revision(1)
			}
			_, err := client.AppendToStream(context.Background(), "s",
				esdb.AppendToStreamOptions{ExpectedRevision: expected}, attempt...)
			if code(err) != esdb.ErrorCodeWrongExpectedVersion {
				t.Errorf("%s: %v", name, err)
			}
		}
		if list, err := readStream(client, "s", esdb.ReadStreamOptions{From: esdb.Start{}}, 100); err != nil ||
			len(list) != 5 {
			t.Errorf("%d events, %v", len(list), err)
		}
	}
	check(client)
	appendTo(t, client, "any", esdb.Any{}, first...)
	if result := appendTo(t, client, "any", esdb.Any{}, first...); result.NextExpectedVersion != 1 {
		t.Errorf("repeated with any: %+v", result)
	}
	s.stop(t)
	check(serve(t, node.Config{Dir: dir}).client(t)) // their ids are on disk
}

func TestAppendLimits(t *testing.T) {
	t.Parallel()
	client := start(t)
	big := event("big", strings.Repeat("x", 1<<20))
	appendTo(t, client, "just", esdb.NoStream{}, big)
	for name, list := range map[string][]esdb.EventData{
		"one":  {event("big", strings.Repeat("x", 1<<20+1))},
		"many": {event("half", strings.Repeat("x", 1<<19)), event("half", strings.Repeat("x", 1<<19+1))},
	} {
		_, err := client.AppendToStream(context.Background(), name,
			esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, list...)
		if err == nil || !strings.Contains(err.Error(), "1048576") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := readStream(client, name, esdb.ReadStreamOptions{From: esdb.Start{}},
			1); code(err) != esdb.ErrorCodeResourceNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "$all", "$$$$x", strings.Repeat("n", 9<<10)} {
		if _, err := client.AppendToStream(context.Background(), name,
			esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, events(1)...); err == nil {
			t.Errorf("stream %.20q was written to", name)
		}
	}
}

func TestDeleteAndTombstone(t *testing.T) {
	t.Parallel()
	client := start(t)
	ctx := context.Background()
	from := esdb.ReadStreamOptions{From: esdb.Start{}}

	appendTo(t, client, "soft", esdb.NoStream{}, events(3)...)
	if _, err := client.DeleteStream(ctx, "soft",
		esdb.DeleteStreamOptions{ExpectedRevision: esdb.Revision(1)}); err == nil {
		t.Error("deleted at the wrong revision")
	}
	deleted, err := client.DeleteStream(ctx, "soft", esdb.DeleteStreamOptions{ExpectedRevision: esdb.Revision(2)})
	if err != nil || deleted.Position.Commit == 0 {
		t.Fatalf("%+v, %v", deleted, err)
	}
	if _, err := readStream(client, "soft", from, 10); code(err) != esdb.ErrorCodeResourceNotFound {
		t.Errorf("read of deleted stream: %v", err)
	}
	if _, err := client.AppendToStream(ctx, "soft",
		esdb.AppendToStreamOptions{ExpectedRevision: esdb.StreamExists{}},
		events(1)...); code(err) != esdb.ErrorCodeStreamDeleted {
		t.Errorf("append to deleted stream that must exist: %v", err)
	}
	again := events(2)
	if result := appendTo(t, client, "soft", esdb.NoStream{}, again...); result.NextExpectedVersion != 4 {
		t.Errorf("append after delete: %+v", result)
	}
	if result := appendTo(t, client, "soft", esdb.NoStream{}, again...); result.NextExpectedVersion != 4 {
		t.Errorf("repeated append after delete: %+v", result)
	}
	list, err := readStream(client, "soft", from, 10)
	if err != nil || len(list) != 2 || list[0].Event.EventNumber != 3 {
		t.Errorf("after re-creation: %d events, %v", len(list), err)
	}
	meta, err := client.GetStreamMetadata(ctx, "soft", esdb.ReadStreamOptions{From: esdb.End{}, Direction: esdb.Backwards})
	if err != nil || meta.TruncateBefore() == nil || *meta.TruncateBefore() != 3 {
		t.Errorf("metadata after re-creation: %+v, %v", meta, err)
	}

	appendTo(t, client, "hard", esdb.NoStream{}, events(2)...)
	if _, err := client.TombstoneStream(ctx, "hard",
		esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}}); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"read": second(readStream(client, "hard", from, 10)),
		"append": second(client.AppendToStream(ctx, "hard", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}},
			events(1)...)),
		"delete":    second(client.DeleteStream(ctx, "hard", esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}})),
		"tombstone": second(client.TombstoneStream(ctx, "hard", esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}})),
		"metadata": second(client.SetStreamMetadata(ctx, "hard", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}},
			esdb.StreamMetadata{})),
	} {
		if !isStreamDeleted(err) {
			t.Errorf("%s of tombstoned stream: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func isStreamDeleted(err error) bool {
	var known *esdb.Error
	return errors.As(err, &known) && known.Code() == esdb.ErrorCodeStreamDeleted
}

// Only the data counts, as on the servers that clients were made for; and an append of any number of events survives a
// crash.
func TestSizesOfAppends(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	client := serve(t, node.Config{Dir: "node", FS: disk}).client(t)
	sized := func(data, metadata int) esdb.EventData {
		e := event("sized", "")
		e.ContentType, e.Data, e.Metadata = esdb.ContentTypeBinary, make([]byte, data), make([]byte, metadata)
		return e
	}
	long := patience
	many := make([]esdb.EventData, 70_000)
	if testing.Short() { // which is more than one batch still
		many = many[:7_000]
	}
	for i := range many {
		many[i] = sized(0, 0)
	}
	for name, c := range map[string]struct {
		list []esdb.EventData
		fits bool
	}{
		"1 MiB of data":        {[]esdb.EventData{sized(1<<20, 0)}, true},
		"and metadata":         {[]esdb.EventData{sized(900_000, 900_000)}, true},
		"much metadata":        {slices.Repeat([]esdb.EventData{sized(10, 1_500_000)}, 8), true},
		"many events":          {many, true},
		"more data":            {[]esdb.EventData{sized(1<<20, 0), sized(1, 0)}, false},
		"more than a request":  {slices.Repeat([]esdb.EventData{sized(10, 1_500_000)}, 12), false},
		"more than one in all": {slices.Repeat([]esdb.EventData{sized(100_000, 0)}, 11), false},
	} {
		_, err := client.AppendToStream(t.Context(), name, esdb.AppendToStreamOptions{
			ExpectedRevision: esdb.NoStream{},
			Deadline:         &long,
		}, c.list...)
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
	again := serve(t, node.Config{Dir: "node", FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	report, err := again.Verify(t.Context(), nil)
	if err != nil || !report.OK() || report.Events != uint64(len(many))+1+1+8 {
		t.Errorf("after a crash: %+v, %v", report, err)
	}
	list, err := readStream(again.client(t), "much metadata", esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
	if err != nil || len(list) != 8 || len(list[7].Event.UserMetadata) != 1_500_000 {
		t.Errorf("%d events, %v", len(list), err)
	}
}

// Real servers remember an id for one of its streams only; the node does for each.
func TestIDsAreRememberedForEachStream(t *testing.T) {
	t.Parallel()
	client := start(t)
	a := event("tested", "{}")
	for _, stream := range []string{"s", "t"} {
		appendTo(t, client, stream, esdb.Any{}, a, a)
	}
	for _, stream := range []string{"s", "t"} {
		appendTo(t, client, stream, esdb.Any{}, a, a)
		appendTo(t, client, stream, esdb.Any{}, a)
		list, err := readStream(client, stream, esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
		if err != nil || len(list) != 2 {
			t.Errorf("stream %s has %d events, %v", stream, len(list), err)
		}
	}
}
