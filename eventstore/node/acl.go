package node

import (
	"bytes"
	"encoding/json"

	"carillon/eventstore/node/internal/store"
)

const settingsStream = "$settings" // holds the lists of all streams

// hasACL reports whether an event is the metadata of a stream, or the settings of all, and has an access control list.
func hasACL(stream string, event *store.EventContent) bool {
	_, described := store.DescribedStream(stream)
	var fields map[string]json.RawMessage
	if !described && stream != settingsStream || !event.JSON ||
		json.Unmarshal(bytes.TrimPrefix(event.Data, []byte(store.ByteOrderMark)), &fields) != nil {
		return false
	}
	for _, name := range []string{"$acl", "$userStreamAcl", "$systemStreamAcl"} {
		if list := string(fields[name]); list != "" && list != "null" && list != "{}" {
			return true
		}
	}
	return false
}
