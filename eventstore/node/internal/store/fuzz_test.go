package store

import (
	"bytes"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func FuzzRecord(f *testing.F) {
	event := Propose(EventContent{
		ID:       EventID{1},
		Stream:   "s-1",
		Type:     "t",
		JSON:     true,
		Metadata: []byte("m"),
		Data:     []byte("d"),
	})
	event.seal(512, 3, 17)
	f.Add(uint64(512), event.value)
	f.Add(uint64(1), []byte{recordVersion})
	f.Add(uint64(1), append(bytes.Repeat([]byte{recordVersion, 0}, headerLen/2), 0x12, 0xff))
	f.Fuzz(func(t *testing.T, position uint64, value []byte) {
		record, err := parseRecord(position, value)
		if err != nil {
			return
		}
		// Whatever the bytes, looking at them must end in an answer or an error.
		stream, eventType, namesErr := record.Names()
		metadata, data, contentErr := record.Content()
		_, _, _, _ = record.Revision(), record.Created(), record.ID(), record.IsLink()
		if record.verify() != nil || namesErr != nil || contentErr != nil {
			return
		}
		assert.True(t, len(stream)+len(eventType)+len(metadata)+len(data) <= len(value), "parts are longer than the whole")
	})
}

func FuzzProposedEventsComeBack(f *testing.F) {
	f.Add("stream", []byte("type"), []byte("{}"), []byte("data"), true, uint64(7))
	f.Add("", []byte("$>"), []byte(nil), []byte("1@s"), false, uint64(0))
	f.Fuzz(func(t *testing.T, stream string, eventType, metadata, data []byte, isJSON bool, revision uint64) {
		revision >>= 1
		event := Propose(EventContent{
			ID:       EventID{9},
			Stream:   stream,
			Type:     string(eventType),
			JSON:     isJSON,
			Metadata: metadata,
			Data:     data,
		})
		event.seal(99, revision, 1234)
		record, err := parseRecord(99, event.value)
		if err != nil || record.verify() != nil {
			t.Fatal(err, record.verify())
		}
		gotStream, gotType, err := record.Names()
		assert.True(t, err == nil && string(gotStream) == stream && bytes.Equal(gotType, eventType),
			"names %q %q, %v", gotStream, gotType, err)
		gotMetadata, gotData, err := record.Content()
		assert.True(t, err == nil && bytes.Equal(gotMetadata, metadata) && bytes.Equal(gotData, data),
			"content %q %q, %v", gotMetadata, gotData, err)
		if record.Revision() != revision || record.Created() != 1234 || record.IsJSON() != isJSON ||
			record.IsLink() != (string(eventType) == LinkType) {
			t.Errorf("header %d %d %v %v", record.Revision(), record.Created(), record.IsJSON(), record.IsLink())
		}
		flipped := bytes.Clone(event.value)
		flipped[len(flipped)-1] ^= 1
		if broken, err := parseRecord(99, flipped); err == nil && broken.verify() == nil {
			t.Error("a flipped bit goes unnoticed")
		}
		if moved, err := parseRecord(100, event.value); err == nil && moved.verify() == nil {
			t.Error("a record at another position goes unnoticed")
		}
	})
}

func FuzzHead(f *testing.F) {
	f.Add(head{
		id:       512,
		last:     3,
		base:     1,
		changed:  600,
		settings: Settings{MaxCount: 2},
	}.encode(nil))
	f.Add(head{id: 512, last: MaxRevision, tombstoned: true}.encode(nil))
	f.Add([]byte{headVersion, 0, 0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		h, err := parseHead(value)
		if err != nil {
			return
		}
		if again, err := parseHead(h.encode(nil)); err != nil || again != h {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
		_, _ = Stream{head: h}.First(), h.exists()
	})
}

func FuzzIndex(f *testing.F) {
	f.Add(indexKey(nil, 5, 6), indexValue(nil, 7, EventID{8}), logKey(nil, 9))
	f.Fuzz(func(t *testing.T, key, value, log []byte) {
		if id, revision, err := parseIndexKey(key); err == nil && !bytes.Equal(indexKey(nil, id, revision), key) {
			t.Errorf("key %x", key)
		}
		if position, id, err := parseIndexValue(value); err == nil && !bytes.Equal(indexValue(nil, position, id), value) {
			t.Errorf("value %x", value)
		}
		if position, err := parseLogKey(log); err == nil && !bytes.Equal(logKey(nil, position), log) {
			t.Errorf("log key %x", log)
		}
	})
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"$maxCount":3,"$maxAge":4,"$tb":5,"$acl":{"$r":"x"}}`))
	f.Add([]byte(`{"$tb":1e3}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, metadata []byte) {
		changed := must.Get(withTruncateBefore(metadata, 42))(t)
		want, after := parseSettings(true, metadata), parseSettings(true, changed)
		if want != (Settings{}) { // else one wrong field, which may have been the mark, has voided them
			want.TruncateBefore = 42
			assert.Equal(t, after, want, "%s became %s", metadata, changed)
		}
	})
}
