package node

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	pb "github.com/EventStore/EventStore-Client-Go/v4/protos/persistent"

	"carillon/eventstore/node/internal/persistent"
	"carillon/eventstore/node/internal/store"
)

// settingsMessage is what requests to create and to update a group have in common.
type settingsMessage interface {
	GetResolveLinks() bool
	GetExtraStatistics() bool
	GetMaxRetryCount() int32
	GetMinCheckpointCount() int32
	GetMaxCheckpointCount() int32
	GetMaxSubscriberCount() int32
	GetLiveBufferSize() int32
	GetReadBatchSize() int32
	GetHistoryBufferSize() int32
	GetMessageTimeoutTicks() int64
	GetMessageTimeoutMs() int32
	GetCheckpointAfterTicks() int64
	GetCheckpointAfterMs() int32
}

func settingsOf(message settingsMessage, strategy string) persistent.Settings {
	// One of the two is set; ticks are .NET's, of 100 ns.
	duration := func(ticks int64, milliseconds int32) time.Duration {
		return time.Duration(ticks)*nanosPerTick + time.Duration(milliseconds)*time.Millisecond
	}
	return persistent.Settings{
		ResolveLinks:    message.GetResolveLinks(),
		ExtraStatistics: message.GetExtraStatistics(),
		MaxRetries:      message.GetMaxRetryCount(),
		MinCheckpoint:   message.GetMinCheckpointCount(),
		MaxCheckpoint:   message.GetMaxCheckpointCount(),
		MaxSubscribers:  message.GetMaxSubscriberCount(),
		LiveBuffer:      message.GetLiveBufferSize(),
		ReadBatch:       message.GetReadBatchSize(),
		HistoryBuffer:   message.GetHistoryBufferSize(),
		MessageTimeout:  duration(message.GetMessageTimeoutTicks(), message.GetMessageTimeoutMs()),
		CheckpointAfter: duration(message.GetCheckpointAfterTicks(), message.GetCheckpointAfterMs()),
		Strategy:        persistent.Strategy(strategy),
	}
}

// The ends of a stream, and both ends of $all, in the protocol's notation.
const (
	streamEndLabel = "-1"
	allStartLabel  = "C:0/P:0"
	allEndLabel    = "C:-1/P:-1"
)

func allLabel(position uint64) string { return fmt.Sprintf("C:%d/P:%d", position, position) }

func (n *Node) startOfStream(ctx context.Context, stream string, revision uint64, end bool) (persistent.Start, error) {
	if !end && revision < store.MaxRevision { // beyond, and as -1 of older clients, it is the end
		return persistent.Start{Label: strconv.FormatUint(revision, 10), Cursor: revision}, nil
	}
	found, err := n.store.Stream(ctx, stream)
	if err != nil {
		return persistent.Start{Label: streamEndLabel}, err
	}
	return persistent.Start{Label: streamEndLabel, Cursor: endOf(found)}, nil
}

func (n *Node) startOfAll(position uint64, end bool, group string) (persistent.Start, error) {
	newest := n.store.Watermark()
	switch {
	case end || position == math.MaxUint64:
		return persistent.Start{Label: allEndLabel, Cursor: newest}, nil
	case position == 0:
		return persistent.Start{Label: allStartLabel}, nil
	case position > newest:
		// It would look healthy, and bring nothing until the log has grown that far.
		return persistent.Start{}, groupFailed("The position "+allLabel(position)+" is beyond the end", allStream, group)
	}
	return persistent.Start{Label: allLabel(position), Cursor: position - 1}, nil // the position is included
}

func (n *Node) createConfig(ctx context.Context, options *pb.CreateReq_Options) (config groupConfig, err error) {
	message := options.GetSettings()
	strategy := message.GetConsumerStrategy()
	if strategy == "" {
		strategy = message.GetNamedConsumerStrategy().String() //nolint:staticcheck // older clients only know this one
	}
	config = groupConfig{Group: options.GetGroupName(), Settings: settingsOf(message, strategy)}
	switch option := options.GetStreamOption().(type) {
	case *pb.CreateReq_Options_All:
		config.Stream = allStream
		_, end := option.All.GetAllOption().(*pb.CreateReq_AllOptions_End)
		if config.Settings.Filter, err = groupFilter(option.All.GetFilter()); err == nil {
			config.Settings.Start, err = n.startOfAll(option.All.GetPosition().GetCommitPosition(), end, config.Group)
		}
	case *pb.CreateReq_Options_Stream:
		config.Stream = string(option.Stream.GetStreamIdentifier().GetStreamName())
		_, end := option.Stream.GetRevisionOption().(*pb.CreateReq_StreamOptions_End)
		config.Settings.Start, err = n.startOfStream(ctx, config.Stream, option.Stream.GetRevision(), end)
	default:
		//nolint:staticcheck // what clients before groups on $all send
		config.Stream = string(options.GetStreamIdentifier().GetStreamName())
		revision := message.GetRevision() //nolint:staticcheck // as above
		config.Settings.Start, err = n.startOfStream(ctx, config.Stream, revision, revision == math.MaxUint64)
	}
	if err != nil {
		return config, err
	}
	return config, config.check()
}

// check refuses names that no group can have.
func (c groupConfig) check() error {
	switch {
	case c.Stream == "" || c.Group == "":
		return invalid("a persistent subscription needs a stream and a group name")
	case !utf8.ValidString(c.Stream):
		return invalid("a stream's name is UTF-8")
	case len(c.Stream) > maxStreamName || len(c.Group) > maxStreamName:
		return invalid("a persistent subscription's names have at most 8 KiB")
	}
	return nil
}

func (n *Node) updateConfig(ctx context.Context, options *pb.UpdateReq_Options) (config groupConfig, err error) {
	message := options.GetSettings()
	config = groupConfig{
		Group: options.GetGroupName(), Settings: settingsOf(message, message.GetNamedConsumerStrategy().String()),
	}
	switch option := options.GetStreamOption().(type) {
	case *pb.UpdateReq_Options_All:
		config.Stream = allStream
		_, end := option.All.GetAllOption().(*pb.UpdateReq_AllOptions_End)
		config.Settings.Start, err = n.startOfAll(option.All.GetPosition().GetCommitPosition(), end, config.Group)
	case *pb.UpdateReq_Options_Stream:
		config.Stream = string(option.Stream.GetStreamIdentifier().GetStreamName())
		_, end := option.Stream.GetRevisionOption().(*pb.UpdateReq_StreamOptions_End)
		config.Settings.Start, err = n.startOfStream(ctx, config.Stream, option.Stream.GetRevision(), end)
	default:
		//nolint:staticcheck // what clients before groups on $all send
		config.Stream = string(options.GetStreamIdentifier().GetStreamName())
		revision := message.GetRevision() //nolint:staticcheck // as above
		config.Settings.Start, err = n.startOfStream(ctx, config.Stream, revision, revision == math.MaxUint64)
	}
	return config, err
}

func groupFilter(options *pb.CreateReq_AllOptions_FilterOptions) (*persistent.Filter, error) {
	if options == nil {
		return nil, nil //nolint:nilnil // no filter
	}
	filter := &persistent.Filter{}
	switch expression := options.GetFilter().(type) {
	case *pb.CreateReq_AllOptions_FilterOptions_EventType:
		filter.ByType = true
		filter.Prefixes, filter.Pattern = expression.EventType.GetPrefix(), expression.EventType.GetRegex()
	case *pb.CreateReq_AllOptions_FilterOptions_StreamIdentifier:
		filter.Prefixes = expression.StreamIdentifier.GetPrefix()
		filter.Pattern = expression.StreamIdentifier.GetRegex()
	default:
		return nil, invalid("the filter says neither stream name nor event type")
	}
	_, err := newFilter(filter.ByType, filter.Prefixes, filter.Pattern)
	return filter, err
}

// positionLabel writes a cursor as the position of the event before it; empty where there is none.
func (c groupConfig) positionLabel(cursor uint64) string {
	switch {
	case cursor == 0:
		return ""
	case c.isAll():
		return allLabel(cursor)
	}
	return strconv.FormatUint(cursor-1, 10)
}

func (g *runningGroup) info() (*pb.SubscriptionInfo, error) {
	info, err := g.group.Info()
	if err != nil {
		return nil, err
	}
	settings := info.Settings
	message := &pb.SubscriptionInfo{
		EventSource:                g.config.Stream,
		GroupName:                  g.config.Group,
		Status:                     info.Status,
		AveragePerSecond:           info.PerSecond,
		TotalItems:                 info.Total,
		CountSinceLastMeasurement:  info.SinceLast,
		LastKnownEventPosition:     g.config.positionLabel(info.LastKnown),
		ResolveLinkTos:             settings.ResolveLinks,
		StartFrom:                  settings.Start.Label,
		MessageTimeoutMilliseconds: int32(settings.MessageTimeout.Milliseconds()), // #nosec G115 -- came as an int32
		ExtraStatistics:            settings.ExtraStatistics,
		MaxRetryCount:              settings.MaxRetries,
		LiveBufferSize:             settings.LiveBuffer,
		BufferSize:                 settings.HistoryBuffer,
		ReadBatchSize:              settings.ReadBatch,
		CheckPointAfterMilliseconds: int32( // #nosec G115 -- came as an int32
			settings.CheckpointAfter.Milliseconds()),
		MinCheckPointCount:       settings.MinCheckpoint,
		MaxCheckPointCount:       settings.MaxCheckpoint,
		ReadBufferCount:          int32(info.Fresh),   // #nosec G115 -- bounded by the buffers
		RetryBufferCount:         int32(info.Retries), // #nosec G115 -- as above
		TotalInFlightMessages:    int32(info.InFlight),
		OutstandingMessagesCount: int32(info.InFlight), // #nosec G115 -- as above
		LiveBufferCount:          int64(info.Live),
		NamedConsumerStrategy:    string(settings.Strategy),
		MaxSubscriberCount:       settings.MaxSubscribers,
		ParkedMessageCount:       info.Parked,
	}
	if g.hasCheckpoint || info.Checkpoint != settings.Start.Cursor {
		message.LastCheckpointedEventPosition = g.config.positionLabel(info.Checkpoint)
	}
	for _, consumer := range info.Consumers {
		message.Connections = append(message.Connections, &pb.SubscriptionInfo_ConnectionInfo{
			From: consumer.Peer.Address, Username: consumer.Peer.User, ConnectionName: cmp.Or(consumer.Peer.Name, consumer.ID),
			ObservedMeasurements: measurements(consumer.Measured), TotalItems: consumer.Total, CountSinceLastMeasurement: consumer.SinceLast,
			AverageItemsPerSecond: consumer.PerSecond,
			AvailableSlots:        int32(consumer.Available), // #nosec G115 -- at most the buffer size
			InFlightMessages:      int32(consumer.InFlight),  // #nosec G115 -- at most the buffer size
		})
	}
	return message, nil
}

func measurements(measured []persistent.Measurement) []*pb.SubscriptionInfo_Measurement {
	list := make([]*pb.SubscriptionInfo_Measurement, 0, len(measured))
	for _, m := range measured {
		list = append(list, &pb.SubscriptionInfo_Measurement{Key: m.Key, Value: m.Value})
	}
	return list
}
