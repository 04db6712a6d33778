package custody

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
)

// The file of slots: a header in the first page, then slots of one size.
//
//	slot   "KEY1" ‖ length (4 bytes) ‖ since, Unix seconds (8) ‖ owner (16) ‖ wrapped data key, zeros ‖ SHA-256 of all that
const (
	slotsFile   = "slots"
	slotsHeader = "carillon keys 1\n"
	slotsStart  = 4096 // bytes
	changesAt   = sector
	slotSize    = sector / 2
	slotMagic   = "KEY1"
	slotFixed   = 32 // bytes before the wrapped data key
	maxWrapped  = slotSize - slotFixed - sha256.Size
	growth      = 64 // slots
)

// Key is a wrapped data key as a place keeps it.
type Key struct {
	Wrapped []byte
	Since   time.Time
}

// Slots keeps data keys in a file of a directory. A key that is erased is overwritten in its place.
type Slots struct {
	mu      sync.Mutex
	file    file
	now     func() time.Time
	changes uint64 // the file's count of changes when the index was made
	unsure  bool   // a write failed: what is there now is not known
	index   map[uuid.UUID]int64
	free    []int64 // offsets
	damaged []int64 // offsets
}

// NewSlots makes the place of a directory, which is made at the first use.
func NewSlots(dir string, now func() time.Time) *Slots {
	return &Slots{file: file{path: filepath.Join(dir, slotsFile), header: []byte(slotsHeader)}, now: now}
}

// String says where the keys are.
func (s *Slots) String() string { return s.file.path }

// hold gives the caller the file for itself, with an index of what is in it.
func (s *Slots) hold(use func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.hold(func(opened *os.File, fresh bool) error {
		count := make([]byte, 8)
		if _, err := opened.ReadAt(count, changesAt); err != nil || fresh || s.unsure || binary.LittleEndian.Uint64(count) != s.changes {
			if err := s.scan(nil); err != nil {
				return err
			}
			s.changes, s.unsure = binary.LittleEndian.Uint64(count), false
		}
		return use()
	})
}

// scan reads the whole file, and shows each key.
func (s *Slots) scan(show func(owner uuid.UUID, key Key)) error {
	size, err := s.file.size()
	if err != nil {
		return err
	}
	s.index, s.free, s.damaged = map[uuid.UUID]int64{}, nil, nil
	page := make([]byte, growth*slotSize)
	for at := int64(slotsStart); at < size; at += int64(len(page)) {
		part := page[:min(int64(len(page)), size-at)]
		if _, err := s.file.opened.ReadAt(part, at); err != nil {
			return fmt.Errorf("read %s: %w", s.file.path, err)
		}
		for i := 0; i+slotSize <= len(part); i += slotSize {
			offset, slot := at+int64(i), part[i:i+slotSize]
			owner, key, whole := readSlot(slot)
			switch {
			case whole:
				if other, twice := s.index[owner]; twice {
					s.damaged = append(s.damaged, other)
				}
				s.index[owner] = offset
				if show != nil {
					show(owner, key)
				}
			case len(bytes.Trim(slot, "\x00")) == 0:
				s.free = append(s.free, offset)
			default:
				s.damaged = append(s.damaged, offset)
			}
		}
	}
	return nil
}

func writeSlot(owner uuid.UUID, key Key) []byte {
	slot := make([]byte, slotSize)
	copy(slot, slotMagic)
	binary.LittleEndian.PutUint32(slot[4:], uint32(len(key.Wrapped))) //nolint:gosec // at most maxWrapped
	binary.LittleEndian.PutUint64(slot[8:], uint64(key.Since.Unix())) //nolint:gosec // after 1970
	copy(slot[16:], owner[:])
	copy(slot[slotFixed:], key.Wrapped)
	sum := sha256.Sum256(slot[:slotSize-sha256.Size])
	copy(slot[slotSize-sha256.Size:], sum[:])
	return slot
}

func readSlot(slot []byte) (owner uuid.UUID, key Key, whole bool) {
	sum := sha256.Sum256(slot[:slotSize-sha256.Size])
	length := binary.LittleEndian.Uint32(slot[4:])
	if string(slot[:4]) != slotMagic || length > maxWrapped || !bytes.Equal(sum[:], slot[slotSize-sha256.Size:]) {
		return owner, key, false
	}
	copy(owner[:], slot[16:])
	key.Since = time.Unix(int64(binary.LittleEndian.Uint64(slot[8:])), 0) //nolint:gosec // after 1970
	key.Wrapped = bytes.Clone(slot[slotFixed : slotFixed+length])
	return owner, key, true
}

// change overwrites a part, and lets the other processes see that their index is old.
func (s *Slots) change(part []byte, at int64) error {
	if err := s.file.write(part, at); err != nil {
		s.unsure = true
		return err
	}
	count := make([]byte, 8)
	binary.LittleEndian.PutUint64(count, s.changes+1)
	if _, err := s.file.opened.WriteAt(count, changesAt); err != nil { // not synced: it is for processes that live
		return fmt.Errorf("write %s: %w", s.file.path, err)
	}
	s.changes++
	return nil
}

// Add implements place.
func (s *Slots) Add(_ context.Context, owner uuid.UUID, wrapped []byte) (kept []byte, err error) {
	err = s.hold(func() error {
		key, there, err := s.get(owner)
		if err != nil || there {
			kept = key.Wrapped
			return err
		}
		kept = wrapped
		return s.put(owner, wrapped)
	})
	return kept, err
}

// get reads the key of an owner, unless it is damaged by now.
func (s *Slots) get(owner uuid.UUID) (key Key, there bool, err error) {
	at, known := s.index[owner]
	if !known {
		return key, false, nil
	}
	slot := make([]byte, slotSize)
	if _, err := s.file.opened.ReadAt(slot, at); err != nil {
		return key, false, fmt.Errorf("read %s: %w", s.file.path, err)
	}
	found, key, whole := readSlot(slot)
	return key, whole && found == owner, nil
}

// Exchange implements place.
func (s *Slots) Exchange(_ context.Context, owner uuid.UUID, from, to []byte) error {
	return s.hold(func() error {
		key, there, err := s.get(owner)
		if err != nil || !there || !bytes.Equal(key.Wrapped, from) {
			return err
		}
		return s.put(owner, to)
	})
}

// Count implements place.
func (s *Slots) Count(context.Context) (n int, err error) {
	err = s.hold(func() error { n = len(s.index); return nil })
	return n, err
}

// Replace implements place.
func (s *Slots) Replace(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	return s.hold(func() error { return s.put(owner, wrapped) })
}

func (s *Slots) put(owner uuid.UUID, wrapped []byte) error {
	if len(wrapped) > maxWrapped {
		return fmt.Errorf("a wrapped data key of %d bytes does not fit a slot", len(wrapped))
	}
	at, there := s.index[owner]
	if !there {
		if len(s.free) == 0 {
			if err := s.grow(); err != nil {
				return err
			}
		}
		at = s.free[len(s.free)-1]
	}
	if err := s.change(writeSlot(owner, Key{Wrapped: wrapped, Since: s.now()}), at); err != nil {
		return err
	}
	if !there {
		s.free = s.free[:len(s.free)-1]
	}
	s.index[owner] = at
	return nil
}

// grow adds free slots. A disk that is full shows here, before anything is used.
func (s *Slots) grow() error {
	size, err := s.file.size()
	if err != nil {
		return err
	}
	at := int64(slotsStart)
	if size > slotsStart {
		at += (size - slotsStart) / slotSize * slotSize // a last slot that was cut short is overwritten
	}
	if err := s.change(make([]byte, growth*slotSize), at); err != nil {
		return err
	}
	for i := range int64(growth) {
		s.free = append(s.free, at+(growth-1-i)*slotSize)
	}
	return nil
}

// Erase implements place. It overwrites the slots before it returns.
func (s *Slots) Erase(_ context.Context, owners ...uuid.UUID) error {
	return s.hold(func() error {
		for _, owner := range owners {
			at, there := s.index[owner]
			if !there {
				continue
			}
			if err := s.change(make([]byte, slotSize), at); err != nil {
				return err
			}
			delete(s.index, owner)
			s.free = append(s.free, at)
		}
		return nil
	})
}

// All implements place. damaged counts slots that hold something else than a whole key.
func (s *Slots) All(context.Context) (keys map[uuid.UUID]Key, damaged int, err error) {
	keys = map[uuid.UUID]Key{}
	err = s.hold(func() error {
		err := s.scan(func(owner uuid.UUID, key Key) { keys[owner] = key })
		damaged = len(s.damaged)
		return err
	})
	return keys, damaged, err
}

// EraseDamaged overwrites what is no whole key. It may be the rest of a shredded one.
func (s *Slots) EraseDamaged() error {
	return s.hold(func() error {
		if err := s.scan(nil); err != nil {
			return err
		}
		for _, at := range s.damaged {
			if err := s.change(make([]byte, slotSize), at); err != nil {
				return err
			}
		}
		s.free, s.damaged = append(s.free, s.damaged...), nil
		return nil
	})
}

// Close gives the file back.
func (s *Slots) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file.close()
}
