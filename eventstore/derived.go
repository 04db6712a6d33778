package eventstore

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 wants SHA-1 here
	"strconv"

	"github.com/google/uuid"
)

// derivedRoom is what most names of derived ids need, with their namespace.
const derivedRoom = 256

// DerivedID is the UUIDv5 of a name within a namespace, as [uuid.NewSHA1] makes it, and takes no memory for it.
func DerivedID(namespace uuid.UUID, name []byte) uuid.UUID {
	var room [derivedRoom]byte
	hash := sha1.Sum(append(append(room[:0], namespace[:]...), name...)) //nolint:gosec // see above
	id := uuid.UUID(hash[:16])
	id[6] = id[6]&0x0f | 5<<4 // version
	id[8] = id[8]&0x3f | 0x80 // variant
	return id
}

// EventID derives the id of a command's i-th event.
func EventID(commandID uuid.UUID, i int) uuid.UUID {
	var room [20]byte
	return DerivedID(commandID, strconv.AppendInt(room[:0], int64(i), 10))
}
