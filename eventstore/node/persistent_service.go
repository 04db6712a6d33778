package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	pb "github.com/EventStore/EventStore-Client-Go/v4/protos/persistent"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"carillon/eventstore/node/internal/persistent"
	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/node/internal/wire"
)

// persistentService is the PersistentSubscriptions service.
type persistentService struct {
	pb.UnimplementedPersistentSubscriptionsServer
	node *Node
}

// maxInFlight bounds what a consumer may have unanswered, whatever it asks for.
const maxInFlight = 8 << 10

// Create implements the service.
func (s persistentService) Create(ctx context.Context, request *pb.CreateReq) (*pb.CreateResp, error) {
	config, err := s.node.createConfig(ctx, request.GetOptions())
	if err == nil {
		err = s.node.groups.create(ctx, config)
	}
	return &pb.CreateResp{}, answer(ctx, config.Stream, err)
}

// Update implements the service.
func (s persistentService) Update(ctx context.Context, request *pb.UpdateReq) (*pb.UpdateResp, error) {
	config, err := s.node.updateConfig(ctx, request.GetOptions())
	if err == nil {
		err = s.node.groups.update(ctx, config)
	}
	return &pb.UpdateResp{}, answer(ctx, config.Stream, err)
}

// Delete implements the service.
func (s persistentService) Delete(ctx context.Context, request *pb.DeleteReq) (*pb.DeleteResp, error) {
	stream := string(request.GetOptions().GetStreamIdentifier().GetStreamName())
	if request.GetOptions().GetAll() != nil {
		stream = allStream
	}
	err := s.node.groups.delete(ctx, stream, request.GetOptions().GetGroupName())
	return &pb.DeleteResp{}, answer(ctx, stream, err)
}

// GetInfo implements the service.
func (s persistentService) GetInfo(ctx context.Context, request *pb.GetInfoReq) (*pb.GetInfoResp, error) {
	stream := string(request.GetOptions().GetStreamIdentifier().GetStreamName())
	if request.GetOptions().GetAll() != nil {
		stream = allStream
	}
	found, err := s.node.groups.find(stream, request.GetOptions().GetGroupName())
	if err != nil {
		return nil, answer(ctx, stream, err)
	}
	info, err := found.info()
	return &pb.GetInfoResp{SubscriptionInfo: info}, answer(ctx, stream, groupGone(err, found.config))
}

// List implements the service.
func (s persistentService) List(ctx context.Context, request *pb.ListReq) (*pb.ListResp, error) {
	stream := ""
	if option := request.GetOptions().GetListForStream(); option != nil {
		stream = string(option.GetStream().GetStreamName())
		if option.GetAll() != nil {
			stream = allStream
		}
		if stream == "" {
			return nil, answer(ctx, "", invalid("the stream has no name"))
		}
	}
	response := &pb.ListResp{}
	for _, found := range s.node.groups.list(stream) {
		info, err := found.info()
		if errors.Is(err, persistent.ErrDropped) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, answer(ctx, stream, err)
		}
		response.Subscriptions = append(response.Subscriptions, info)
	}
	if stream != "" && len(response.GetSubscriptions()) == 0 {
		return nil, answer(ctx, stream, noSuchGroup(stream, ""))
	}
	return response, nil
}

// ReplayParked implements the service.
func (s persistentService) ReplayParked(
	ctx context.Context, request *pb.ReplayParkedReq,
) (*pb.ReplayParkedResp, error) {
	options := request.GetOptions()
	stream := string(options.GetStreamIdentifier().GetStreamName())
	if options.GetAll() != nil {
		stream = allStream
	}
	found, err := s.node.groups.find(stream, options.GetGroupName())
	if err == nil {
		stopAt := options.GetStopAt()
		if stopAt < 0 {
			err = invalid("the number of parked events to replay is negative")
		} else {
			err = groupGone(found.group.Replay(uint64(stopAt)), found.config)
		}
	}
	return &pb.ReplayParkedResp{}, answer(ctx, stream, err)
}

// RestartSubsystem implements the service.
func (s persistentService) RestartSubsystem(ctx context.Context, _ *shared.Empty) (*shared.Empty, error) {
	return &shared.Empty{}, answer(ctx, "", s.node.groups.restart())
}

// groupGone says what it means for a client that a group has stopped.
func groupGone(err error, config groupConfig) error {
	switch {
	case errors.Is(err, persistent.ErrDropped):
		return groupError(codes.Canceled, exceptionGroupDropped,
			"Subscription group "+config.Group+" on stream "+config.Stream+" was dropped.", config.Stream, config.Group)
	case errors.Is(err, persistent.ErrStopped):
		return groupError(codes.Canceled, exceptionGroupDropped, err.Error(), config.Stream, config.Group)
	case errors.Is(err, persistent.ErrTooMany):
		return groupError(codes.FailedPrecondition, exceptionMaxSubscribers, err.Error(), config.Stream, config.Group)
	}
	return err
}

// Read implements the service: the connection of one consumer to a group.
func (s persistentService) Read(call pb.PersistentSubscriptions_ReadServer) error {
	first, err := call.Recv()
	if err != nil {
		return err
	}
	options := first.GetOptions()
	stream := string(options.GetStreamIdentifier().GetStreamName())
	if options.GetAll() != nil {
		stream = allStream
	}
	return answer(call.Context(), stream, s.consume(call, options, stream))
}

func (s persistentService) consume(
	call pb.PersistentSubscriptions_ReadServer, options *pb.ReadReq_Options, stream string,
) error {
	if options == nil || options.GetBufferSize() <= 0 {
		return invalid("a consumer begins with its options, and a buffer size above 0")
	}
	found, err := s.node.groups.find(stream, options.GetGroupName())
	if err != nil {
		return err
	}
	consumer, err := found.group.Connect(s.node.peerOf(call.Context()), int(min(options.GetBufferSize(), maxInFlight)))
	if err != nil {
		return groupGone(err, found.config)
	}
	defer consumer.Close()
	err = call.Send(&pb.ReadResp{Content: &pb.ReadResp_SubscriptionConfirmation_{
		SubscriptionConfirmation: &pb.ReadResp_SubscriptionConfirmation{SubscriptionId: found.config.name()},
	}})
	if err != nil {
		return err
	}
	form := wire.StructuredUUID
	if _, ok := options.GetUuidOption().GetContent().(*pb.ReadReq_Options_UUIDOption_String_); ok {
		form = wire.StringUUID
	}
	answered := make(chan error, 1)
	go func() { answered <- receiveAnswers(call, consumer) }()
	return s.deliver(call, found, consumer, form, answered)
}

// deliver sends events until either side ends the connection.
func (s persistentService) deliver(
	call pb.PersistentSubscriptions_ReadServer, found *runningGroup, consumer *persistent.Consumer,
	form wire.UUIDForm, answered <-chan error,
) error {
	var page wire.Page
	for {
		select {
		case delivery := <-consumer.Deliveries():
			addDelivery(&page, delivery, form)
			for more := true; more && !page.Full(); {
				select {
				case delivery := <-consumer.Deliveries():
					addDelivery(&page, delivery, form)
				default:
					more = false
				}
			}
			if err := page.Send(call); err != nil {
				return err
			}
		case <-consumer.Ended():
			return groupGone(consumer.Err(), found.config)
		case err := <-answered:
			return err
		case <-call.Context().Done():
			return call.Context().Err()
		case <-s.node.store.Closing():
			return errClosing
		}
	}
}

func addDelivery(page *wire.Page, delivery persistent.Delivery, form wire.UUIDForm) {
	event := delivery.Event.Content
	event.Retries = &delivery.Retries
	page.AddEvent(event, form)
}

// receiveAnswers passes on what the consumer says about the events it got, until it closes its side.
func receiveAnswers(call pb.PersistentSubscriptions_ReadServer, consumer *persistent.Consumer) error {
	for {
		message, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch content := message.GetContent().(type) {
		case *pb.ReadReq_Ack_:
			ids, err := eventIDs(content.Ack.GetIds())
			if err != nil {
				return err
			}
			consumer.Ack(ids...)
		case *pb.ReadReq_Nack_:
			ids, err := eventIDs(content.Nack.GetIds())
			if err != nil {
				return err
			}
			consumer.Nack(persistent.Action(content.Nack.GetAction()), content.Nack.GetReason(), ids...)
		default:
			return invalid("after its options a consumer only answers")
		}
	}
}

func eventIDs(messages []*shared.UUID) ([]store.EventID, error) {
	ids := make([]store.EventID, 0, len(messages))
	for _, message := range messages {
		id, err := eventID(message)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func eventID(id *shared.UUID) (store.EventID, error) {
	switch form := id.GetValue().(type) {
	case *shared.UUID_Structured_:
		var parsed store.EventID
		binary.BigEndian.PutUint64(parsed[:8], uint64(form.Structured.GetMostSignificantBits()))  // #nosec G115 -- bits
		binary.BigEndian.PutUint64(parsed[8:], uint64(form.Structured.GetLeastSignificantBits())) // #nosec G115 -- bits
		return parsed, nil
	case *shared.UUID_String_:
		parsed, err := uuid.Parse(form.String_)
		if err != nil {
			return store.EventID{}, fmt.Errorf("%w: event id: %w", wire.ErrMalformed, err)
		}
		return store.EventID(parsed), nil
	}
	return store.EventID{}, fmt.Errorf("%w: event without id", wire.ErrMalformed)
}
