package protocol

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/go-cmp/cmp"
)

// Answers to an append.
const (
	fine    = "fine"
	wrong   = "wrong revision"
	deleted = "deleted"
)

func answer(err error) string {
	switch {
	case err == nil:
		return fine
	case code(err) == esdb.ErrorCodeWrongExpectedVersion:
		return wrong
	case code(err) == esdb.ErrorCodeStreamDeleted:
		return deleted
	}
	return err.Error()
}

// describeOnly gives a stream metadata; that makes it one that exists.
func describeOnly(f *fixture, stream string) error {
	f.describe(stream, func(m *esdb.StreamMetadata) { m.SetMaxCount(100) })
	return nil
}

// expectedRevisions: every expectation on every state of a stream.
func expectedRevisions(t *testing.T, client *esdb.Client) {
	expectations := map[string]esdb.ExpectedRevision{
		"any": esdb.Any{}, "no stream": esdb.NoStream{}, "exists": esdb.StreamExists{},
		"0": esdb.Revision(0), "2": esdb.Revision(2), "7": esdb.Revision(7),
	}
	states := map[string]struct {
		events int
		then   func(f *fixture, stream string) error
		want   map[string]string
	}{
		"missing": {0, nil, map[string]string{"any": fine, "no stream": fine, "exists": wrong, "0": wrong, "2": wrong, "7": wrong}},
		"metadata alone": {0, describeOnly, map[string]string{
			"any": fine, "no stream": fine, "exists": fine, "0": wrong, "2": wrong, "7": wrong,
		}},
		"one event":    {1, nil, map[string]string{"any": fine, "no stream": wrong, "exists": fine, "0": fine, "2": wrong, "7": wrong}},
		"three events": {3, nil, map[string]string{"any": fine, "no stream": wrong, "exists": fine, "0": wrong, "2": fine, "7": wrong}},
		"deleted": {3, softDelete, map[string]string{ // it goes on where it was
			"any": fine, "no stream": fine, "exists": deleted, "0": wrong, "2": fine, "7": wrong,
		}},
		"tombstoned": {3, tombstone, map[string]string{
			"any": deleted, "no stream": deleted, "exists": deleted, "0": deleted, "2": deleted, "7": deleted,
		}},
	}
	for state, s := range states {
		for name, expected := range expectations {
			t.Run(state+", expecting "+name, func(t *testing.T) {
				f := begin(t, client)
				stream := f.stream("s")
				if s.events > 0 {
					f.append(stream, esdb.NoStream{}, events(s.events)...)
				}
				if s.then != nil {
					if err := s.then(f, stream); err != nil {
						t.Fatal(err)
					}
				}
				result, err := f.try(stream, expected, events(2))
				if got := answer(err); got != s.want[name] {
					t.Fatalf("%s, want %s", got, s.want[name])
				}
				if want := s.events + 1; err == nil && int(result.NextExpectedVersion) != want { //nolint:gosec // a few
					t.Errorf("at revision %d, want %d", result.NextExpectedVersion, want)
				}
			})
		}
	}
}

func softDelete(f *fixture, stream string) error {
	_, err := f.client.DeleteStream(f.ctx, stream, esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}})
	return err
}

func tombstone(f *fixture, stream string) error {
	_, err := f.client.TombstoneStream(f.ctx, stream, esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}})
	return err
}

// idempotence by event id. It is for ever where the revision is explicit, and for a while with any.
func idempotence(t *testing.T, client *esdb.Client) {
	t.Run("at a revision", func(t *testing.T) { idempotenceAtRevision(t, client) })
	t.Run("at any", func(t *testing.T) {
		f := begin(t, client)
		list := events(4)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, list[0])
		f.append(stream, esdb.Any{}, list[1:3]...)
		for name, c := range map[string]struct {
			list []esdb.EventData
			want string
			next uint64
		}{
			"appended as the first": {list[:1], fine, 0},
			"the same two":          {list[1:3], fine, 2},
			"the first of two":      {list[1:2], fine, 1},
			"the second of two":     {list[2:3], fine, 2},
			"of two appends":        {list[:3], fine, 2},
			"and one more":          {list, wrong, 0},
		} {
			for _, expected := range []esdb.ExpectedRevision{esdb.Any{}, esdb.StreamExists{}} {
				result, err := f.try(stream, expected, c.list)
				if answer(err) != c.want || err == nil && result.NextExpectedVersion != c.next {
					t.Errorf("%s, expecting %T: %s, %+v", name, expected, answer(err), result)
				}
			}
		}
		if got := f.numbers(stream); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("events %v", got)
		}
		f.append(stream, esdb.Revision(2), list[0]) // at its end a stream takes whatever it is given
		if got := f.numbers(stream); !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("events %v", got)
		}
	})
}

func idempotenceAtRevision(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	stream, list := f.stream("s"), events(4)
	first := f.append(stream, esdb.NoStream{}, list[:2]...)
	f.append(stream, esdb.Revision(1), list[2:]...)
	for i, c := range []struct {
		expected esdb.ExpectedRevision
		list     []esdb.EventData
		want     string
	}{
		{esdb.NoStream{}, list[:2], fine},
		{esdb.Revision(1), list[2:], fine},
		{esdb.Revision(0), list[1:3], fine},
		{esdb.NoStream{}, events(1), wrong},
		{esdb.Revision(0), list[2:3], wrong},
	} {
		if _, err := f.try(stream, c.expected, c.list); answer(err) != c.want {
			t.Errorf("retry %d: %s, want %s", i, answer(err), c.want)
		}
	}
	again := f.append(stream, esdb.NoStream{}, list[:2]...)
	if again.NextExpectedVersion != first.NextExpectedVersion {
		t.Errorf("the retry says revision %d, the first said %d", again.NextExpectedVersion, first.NextExpectedVersion)
	}
	if got := f.numbers(stream); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("events %v", got)
	}
}

func metadata(t *testing.T, client *esdb.Client) {
	for name, c := range map[string]struct {
		change func(*esdb.StreamMetadata)
		want   []int
	}{
		"none":               {func(*esdb.StreamMetadata) {}, []int{0, 1, 2, 3, 4, 5}},
		"count":              {func(m *esdb.StreamMetadata) { m.SetMaxCount(2) }, []int{4, 5}},
		"count of more":      {func(m *esdb.StreamMetadata) { m.SetMaxCount(20) }, []int{0, 1, 2, 3, 4, 5}},
		"before":             {func(m *esdb.StreamMetadata) { m.SetTruncateBefore(3) }, []int{3, 4, 5}},
		"before the end":     {func(m *esdb.StreamMetadata) { m.SetTruncateBefore(6) }, nil},
		"young":              {func(m *esdb.StreamMetadata) { m.SetMaxAge(time.Hour) }, []int{0, 1, 2, 3, 4, 5}},
		"count and before":   {func(m *esdb.StreamMetadata) { m.SetMaxCount(4); m.SetTruncateBefore(5) }, []int{5}},
		"count in the other": {func(m *esdb.StreamMetadata) { m.SetMaxCount(1); m.SetTruncateBefore(2) }, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, client)
			stream := f.stream("s")
			f.append(stream, esdb.NoStream{}, events(6)...)
			f.describe(stream, c.change)
			if got := f.numbers(stream); !slices.Equal(got, c.want) {
				t.Errorf("read %v, want %v", got, c.want)
			}
			back, err := f.read(stream, esdb.ReadStreamOptions{From: esdb.End{}, Direction: esdb.Backwards})
			if err != nil || len(back) != len(c.want) {
				t.Errorf("%d events backwards, %v", len(back), err)
			}
		})
	}
	t.Run("old", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(3)...)
		f.describe(stream, func(m *esdb.StreamMetadata) { m.SetMaxAge(time.Second) })
		f.eventually("all events are too old", func() bool { return len(f.numbers(stream)) == 0 })
		f.append(stream, esdb.Revision(2), events(1)...)
	})
	t.Run("read back", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.describe(stream, func(m *esdb.StreamMetadata) {
			m.SetMaxCount(9)
			m.SetMaxAge(time.Hour)
			m.SetTruncateBefore(1)
			m.SetCacheControl(time.Minute)
			m.AddCustomProperty("mine", "yes")
		})
		got, err := client.GetStreamMetadata(f.ctx, stream, esdb.ReadStreamOptions{From: esdb.Start{}})
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(*got.MaxCount(), *got.MaxAge(), *got.TruncateBefore(), *got.CacheControl(), got.CustomProperty("mine"))
		if diff := cmp.Diff(fmt.Sprint(9, time.Hour, 1, time.Minute, "yes"), text); diff != "" {
			t.Error(diff)
		}
	})
}

func deletion(t *testing.T, client *esdb.Client) {
	t.Run("a deleted stream is not found, and goes on where it was", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(3)...)
		for round := range 3 {
			if err := softDelete(f, stream); err != nil {
				t.Fatal(err)
			}
			if got := f.numbers(stream); !slices.Equal(got, []int{-1}) {
				t.Errorf("deleted, it reads %v", got)
			}
			f.append(stream, esdb.NoStream{}, events(1)...)
			if got, want := f.numbers(stream), []int{3 + round}; !slices.Equal(got, want) {
				t.Errorf("appended to again, it reads %v, want %v", got, want)
			}
		}
	})
	t.Run("a tombstoned stream has ended", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(3)...)
		if err := tombstone(f, stream); err != nil {
			t.Fatal(err)
		}
		if _, err := f.read(stream, esdb.ReadStreamOptions{}); answer(err) != deleted {
			t.Errorf("read: %s", answer(err))
		}
		if err := tombstone(f, stream); answer(err) != deleted {
			t.Errorf("tombstoned again: %s", answer(err))
		}
		if err := softDelete(f, stream); answer(err) != deleted {
			t.Errorf("deleted after that: %s", answer(err))
		}
	})
	t.Run("not at another revision", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(3)...)
		if _, err := client.DeleteStream(f.ctx, stream, esdb.DeleteStreamOptions{ExpectedRevision: esdb.Revision(1)}); answer(err) == fine {
			t.Error("deleted at revision 1 of 2")
		}
		if _, err := client.TombstoneStream(f.ctx, stream, esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Revision(1)}); answer(err) == fine {
			t.Error("tombstoned at revision 1 of 2")
		}
		if got := f.numbers(stream); len(got) != 3 {
			t.Errorf("it reads %v", got)
		}
	})
}
