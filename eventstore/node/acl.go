package node

import (
	"bytes"
	"encoding/json"

	"carillon/eventstore/node/internal/store"
)

// A node has one user at most, and that is its administrator, whom no access control list stops: the lists of such a
// node hold as they stand, since everybody else is refused anyway. The same goes for the user whose socket it is. A
// node that anybody on a network may use can't tell callers apart. It refuses lists that would keep some out, rather
// than seem to keep to them.

// anonymous reports whether callers are not told apart.
func (n *Node) anonymous() bool { return n.config.User == "" && n.shared.Load() }

const (
	everyone       = "$all"
	settingsStream = "$settings" // where the lists of all streams are
)

// restricts reports whether an event is the metadata of a stream, or the settings of all, and keeps anybody out.
func restricts(stream string, event *store.EventContent) bool {
	var lists []string
	switch _, described := store.DescribedStream(stream); {
	case described:
		lists = []string{"$acl"}
	case stream == settingsStream:
		lists = []string{"$userStreamAcl", "$systemStreamAcl"}
	default:
		return false
	}
	var fields map[string]json.RawMessage
	if !event.JSON || json.Unmarshal(bytes.TrimPrefix(event.Data, []byte(store.ByteOrderMark)), &fields) != nil {
		return false
	}
	for _, name := range lists {
		if list, ok := fields[name]; ok && !open(list) {
			return true
		}
	}
	return false
}

// open reports whether an access control list lets everybody do whatever it is about.
func open(list json.RawMessage) bool {
	var rights map[string]json.RawMessage
	if json.Unmarshal(list, &rights) != nil {
		return false
	}
	for _, right := range rights {
		var one string
		var several []string
		if json.Unmarshal(right, &one) == nil {
			several = []string{one}
		} else if json.Unmarshal(right, &several) != nil {
			return false
		}
		everybody := false
		for _, role := range several {
			everybody = everybody || role == everyone
		}
		if !everybody {
			return false
		}
	}
	return true
}
