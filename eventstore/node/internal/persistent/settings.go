package persistent

import (
	"errors"
	"fmt"
	"time"
)

// Strategy is how a group's events are spread over its consumers.
type Strategy string

// Strategies, by their names in the protocol.
const (
	RoundRobin          Strategy = "RoundRobin"
	DispatchToSingle    Strategy = "DispatchToSingle"
	Pinned              Strategy = "Pinned"
	PinnedByCorrelation Strategy = "PinnedByCorrelation"
)

// Settings are what a client chooses for a group. They are stored as JSON.
type Settings struct {
	ResolveLinks    bool          `json:"resolveLinks,omitempty"`
	ExtraStatistics bool          `json:"extraStatistics,omitempty"`
	MaxRetries      int32         `json:"maxRetries"`
	MinCheckpoint   int32         `json:"minCheckpoint"`
	MaxCheckpoint   int32         `json:"maxCheckpoint"`
	MaxSubscribers  int32         `json:"maxSubscribers"` // 0 is no limit
	LiveBuffer      int32         `json:"liveBuffer"`
	ReadBatch       int32         `json:"readBatch"`
	HistoryBuffer   int32         `json:"historyBuffer"`
	MessageTimeout  time.Duration `json:"messageTimeout"`  // 0 is never
	CheckpointAfter time.Duration `json:"checkpointAfter"` // 0 is never by time
	Strategy        Strategy      `json:"strategy"`
	Start           Start         `json:"start"`
	Filter          *Filter       `json:"filter,omitempty"`
}

// Start is where a group without a checkpoint begins.
type Start struct {
	// Label is the place as the client named it, in the protocol's notation.
	Label string `json:"label"`
	// Cursor is the place itself; see Event.
	Cursor uint64 `json:"cursor"`
}

// Filter is which events of $all a group wants.
type Filter struct {
	ByType   bool     `json:"byType,omitempty"`
	Prefixes []string `json:"prefixes,omitempty"`
	Pattern  string   `json:"pattern,omitempty"`
}

// ErrSettings says that settings contradict each other or themselves.
var ErrSettings = errors.New("invalid settings")

// Validate reports settings that no group can work with.
func (s Settings) Validate() error {
	for name, value := range map[string]int64{
		"max retry count": int64(s.MaxRetries), "min checkpoint count": int64(s.MinCheckpoint),
		"max checkpoint count": int64(s.MaxCheckpoint), "max subscriber count": int64(s.MaxSubscribers),
		"live buffer size": int64(s.LiveBuffer), "message timeout": int64(s.MessageTimeout),
		"checkpoint after": int64(s.CheckpointAfter),
	} {
		if value < 0 {
			return fmt.Errorf("%w: %s is negative", ErrSettings, name)
		}
	}
	switch {
	case s.ReadBatch <= 0:
		return fmt.Errorf("%w: read batch size must be above 0", ErrSettings)
	case s.HistoryBuffer <= s.ReadBatch:
		return fmt.Errorf("%w: history buffer size must be above read batch size", ErrSettings)
	}
	switch s.Strategy {
	case RoundRobin, DispatchToSingle, Pinned, PinnedByCorrelation:
		return nil
	}
	return fmt.Errorf("%w: unknown consumer strategy %q", ErrSettings, s.Strategy)
}
