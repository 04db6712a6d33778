package store

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// MetadataType is the type of the events in a metadata stream.
const MetadataType = "$metadata"

// TombstoneType is the type of the event that ends a stream permanently.
const TombstoneType = "$streamDeleted"

// MaxRevision is the revision of a tombstone, and the truncation mark of a soft-deleted stream.
const MaxRevision = math.MaxInt64

const metadataPrefix = "$$"

// ByteOrderMark may stand before metadata.
const ByteOrderMark = "\xef\xbb\xbf"

const truncateBeforeKey = "$tb"

// Settings are what a stream's metadata says about which of its events are readable.
type Settings struct {
	// TruncateBefore is the first readable revision; MaxRevision marks a soft-deleted stream.
	TruncateBefore uint64
	// MaxCount is how many of the last events are readable; 0 is no limit.
	MaxCount uint64
	// MaxAge is how old a readable event may be, in seconds; 0 is no limit.
	MaxAge uint64
}

func (s Settings) softDeleted() bool { return s.TruncateBefore == MaxRevision }

// parseSettings reads the metadata of a stream. Only an event that is flagged as JSON counts, whatever its type; keys
// are as they are written; and one field that isn't what it should be voids them all.
func parseSettings(isJSON bool, data []byte) Settings {
	var fields map[string]json.RawMessage
	if !isJSON || json.Unmarshal(bytes.TrimPrefix(data, []byte(ByteOrderMark)), &fields) != nil {
		return Settings{}
	}
	var settings Settings
	for key, to := range map[string]*uint64{
		truncateBeforeKey: &settings.TruncateBefore, "$maxCount": &settings.MaxCount, "$maxAge": &settings.MaxAge,
		"$cacheControl": new(uint64),
	} {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var number int64
		if string(raw) == "null" || json.Unmarshal(raw, &number) != nil || number < 0 {
			return Settings{}
		}
		*to = uint64(number)
	}
	return settings
}

// earlierSettings reads metadata as versions before did, whose stores may hold settings of that kind.
func earlierSettings(eventType string, data []byte) Settings {
	var fields struct {
		TruncateBefore json.RawMessage `json:"$tb"`
		MaxCount       json.RawMessage `json:"$maxCount"`
		MaxAge         json.RawMessage `json:"$maxAge"`
	}
	if eventType != MetadataType || json.Unmarshal(data, &fields) != nil {
		return Settings{}
	}
	return Settings{
		TruncateBefore: positive(fields.TruncateBefore),
		MaxCount:       positive(fields.MaxCount),
		MaxAge:         positive(fields.MaxAge),
	}
}

// positive reads a whole number above 0 and within the range of revisions; anything else is 0.
func positive(raw json.RawMessage) uint64 {
	var n int64
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil || n < 0 {
		return 0
	}
	return uint64(n)
}

// withTruncateBefore returns the metadata with its truncation mark replaced and everything else kept.
func withTruncateBefore(metadata []byte, revision uint64) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(bytes.TrimPrefix(metadata, []byte(ByteOrderMark)), &fields); err != nil || fields == nil {
		fields = map[string]json.RawMessage{} // not an object, so there is nothing to keep
	}
	mark, err := json.Marshal(revision)
	if err != nil {
		return nil, err
	}
	fields[truncateBeforeKey] = mark
	return json.Marshal(fields)
}

// MetadataStream is the name of the stream that holds a stream's metadata.
func MetadataStream(stream string) string { return metadataPrefix + stream }

// DescribedStream is the stream whose metadata the named stream holds; false if it is not a metadata stream.
func DescribedStream(stream string) (string, bool) { return strings.CutPrefix(stream, metadataPrefix) }
