package node

import "github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

// page collects messages, so that none is sent, which may take long, while the storage is read.
type page struct {
	messages []*streams.ReadResp
	size     int
}

const (
	maxPageBytes = 64 << 10 // one message may go beyond
	// maxPageMessages keeps small events from being held up.
	maxPageMessages = 256
)

func (p *page) add(message *streams.ReadResp, size int) {
	p.messages = append(p.messages, message)
	p.size += size
}

// full reports whether the page should be sent before more is added.
func (p *page) full() bool { return p.size >= maxPageBytes || len(p.messages) >= maxPageMessages }

// send sends the messages and empties the page.
func (p *page) send(call streams.Streams_ReadServer) error {
	for i, message := range p.messages {
		p.messages[i] = nil
		if err := call.Send(message); err != nil {
			return err
		}
	}
	p.messages, p.size = p.messages[:0], 0
	return nil
}
