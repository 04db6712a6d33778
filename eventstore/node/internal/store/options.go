package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configure a store. The zero value of each but Dir is a good default.
type Options struct {
	// Dir is the directory of the database; it is created if it is missing.
	Dir string
	// MustExist refuses to create the database.
	MustExist bool
	// ReadOnly leaves the files as they are; writes fail.
	ReadOnly bool
	// FS is the file system. Optional. Default: the operating system's.
	FS vfs.FS
	// Now returns the time for new events.
	Now func() time.Time
	// Logger hears about the store's own troubles.
	Logger *slog.Logger
	// CacheBytes bounds the memory of writes not yet flushed and of blocks read from disk, together. It should be
	// three times MemTableBytes or more, or nothing is left for the blocks.
	CacheBytes int64
	// MemTableBytes is how much is written to memory before it is flushed, and thus replayed after a crash.
	MemTableBytes int
	// Heads bounds the number of stream heads cached for writers.
	Heads int
	// MinFreeBytes is the disk space below which writes are refused with ErrFull.
	MinFreeBytes uint64

	// Original is for tests. It makes the store answer repeated appends as EventStoreDB does, which remembers an id for
	// one stream only, and does not know whether it was appended to a stream before or after that was deleted.
	Original bool
}

const (
	defaultCacheBytes    = 48 << 20
	defaultMemTableBytes = 12 << 20
	defaultHeads         = 8 << 10
	defaultMinFreeBytes  = 64 << 20

	// minHeads is more heads than one request touches.
	minHeads = 64

	// formatVersion is that of the database. Opening a store raises it irreversibly, so that versions before can't open
	// it.
	formatVersion = pebble.FormatValueSeparation

	queueBytes      = 32 << 20
	maxBatchBytes   = 4 << 20
	pipelineDepth   = 2
	syncChunkBytes  = 512 << 10
	bloomBitsPerKey = 10
	maxOpenFiles    = 512
)

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = privateFS{vfs.Default}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.CacheBytes = cmp.Or(o.CacheBytes, defaultCacheBytes)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, defaultMemTableBytes)
	o.Heads = max(cmp.Or(o.Heads, defaultHeads), minHeads)
	o.MinFreeBytes = cmp.Or(o.MinFreeBytes, defaultMinFreeBytes)
	return o
}

// openFiles returns how many files the database keeps open: a quarter of what the process may have, so that it can open
// those of a flush or a compaction.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return maxOpenFiles
	}
	return int(min(maxOpenFiles, limit.Cur/4)) //nolint:gosec // bounded
}

// pebbleOptions returns options whose cache the caller must unref once the database is open.
func (s *Store) pebbleOptions() *pebble.Options {
	options := &pebble.Options{
		FS:                          s.fs,
		Cache:                       pebble.NewCache(s.options.CacheBytes),
		FormatMajorVersion:          formatVersion,
		Logger:                      pebbleLogger{s},
		MemTableSize:                uint64(s.options.MemTableBytes), // #nosec G115 -- positive
		MemTableStopWritesThreshold: 3,
		MaxOpenFiles:                openFiles(),
		BytesPerSync:                syncChunkBytes,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       64,
		LBaseMaxBytes:               64 << 20,
		MaxManifestFileSize:         1 << 20,
		ErrorIfNotExists:            s.options.MustExist,
		ReadOnly:                    s.options.ReadOnly,
	}
	options.EventListener = &pebble.EventListener{
		// Left alone, Pebble takes a block that can't be read for the end of the process. The read fails; that is enough.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.log.Error("event store data is corrupt", "path", info.Path, "error", info.Details)
		},
	}
	// One compaction at a time leaves the other cores to the clients.
	options.CompactionConcurrencyRange = func() (lower, upper int) { return 1, 2 }
	// A compaction starts when another or a flush has ended. Pebble's default also looks for one ten times a second.
	options.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = headFilter{bloom.FilterPolicy(bloomBitsPerKey)}
		options.Levels[i].BlockSize = 8 << 10
	}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	return options
}

// Errors that callers distinguish with errors.Is.
var (
	// ErrStreamDeleted means that the stream was tombstoned, or soft-deleted if it must exist.
	ErrStreamDeleted = errors.New("stream is deleted")
	// ErrFull means that the disk has too little space left; nothing was written.
	ErrFull = errors.New("disk is full")
	// ErrReadOnly means that the store was opened for reading alone.
	ErrReadOnly = errors.New("store is read-only")
	// ErrFailed means that a write failed in a way that makes every further answer doubtful.
	ErrFailed = errors.New("store has failed")
	// ErrClosed means that the store is closing or closed.
	ErrClosed = errors.New("store is closed")
	// ErrCorrupt means that stored bytes do not decode or do not agree with each other.
	ErrCorrupt = errors.New("corrupt data")
	// ErrInvalid means that a request can never succeed unchanged.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound means that a single record looked for does not exist or is no longer readable.
	ErrNotFound = errors.New("not found")
)

// WrongRevisionError refuses a write whose expectation does not hold.
type WrongRevisionError struct {
	Stream   string
	Expected Expected
	// Current is the last revision, or -1 if the stream has no events.
	Current int64
}

func (e *WrongRevisionError) Error() string {
	return fmt.Sprintf("wrong expected revision of stream %q: expected %s, current %d", e.Stream, e.Expected, e.Current)
}
