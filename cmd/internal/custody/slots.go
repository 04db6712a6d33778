package custody

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// A file of slots holds the keys of a backup. It begins with a header; slots of one size follow from the second page
// on.
//
//	slot   "KEY1" ‖ length (4 bytes) ‖ 8 bytes, unused ‖ owner (16) ‖ wrapped data key, zeros ‖ SHA-256 of all that
const (
	slotsHeader = "carillon keys 1\n"
	slotsStart  = 4096 // bytes
	slotSize    = 256
	slotMagic   = "KEY1"
	slotFixed   = 32 // bytes before the wrapped data key
	slotRoom    = slotSize - slotFixed - sha256.Size
)

// EncodeSlots returns a file of slots.
func EncodeSlots(keys map[uuid.UUID][]byte) ([]byte, error) {
	page := make([]byte, slotsStart, slotsStart+len(keys)*slotSize)
	copy(page, slotsHeader)
	for owner, wrapped := range keys {
		if len(wrapped) > slotRoom {
			return nil, fmt.Errorf("a wrapped data key of %d bytes does not fit a slot", len(wrapped))
		}
		slot := make([]byte, slotSize)
		copy(slot, slotMagic)
		binary.LittleEndian.PutUint32(slot[4:], uint32(len(wrapped))) //nolint:gosec // at most slotRoom
		copy(slot[16:], owner[:])
		copy(slot[slotFixed:], wrapped)
		sum := sha256.Sum256(slot[:slotSize-sha256.Size])
		copy(slot[slotSize-sha256.Size:], sum[:])
		page = append(page, slot...)
	}
	return page, nil
}

// DecodeSlots returns the keys of a file of slots. Damaged slots are left out.
func DecodeSlots(page []byte) map[uuid.UUID][]byte {
	keys := map[uuid.UUID][]byte{}
	for at := slotsStart; at+slotSize <= len(page); at += slotSize {
		slot := page[at : at+slotSize]
		sum := sha256.Sum256(slot[:slotSize-sha256.Size])
		length := binary.LittleEndian.Uint32(slot[4:])
		if string(slot[:4]) != slotMagic || length > slotRoom || !bytes.Equal(sum[:], slot[slotSize-sha256.Size:]) {
			continue
		}
		keys[uuid.UUID(slot[16:slotFixed])] = bytes.Clone(slot[slotFixed : slotFixed+length])
	}
	return keys
}
