package wire

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Page collects encoded messages in one piece of pooled memory, so that sending them allocates next to nothing.
type Page struct {
	buffer *[]byte
	ends   []int
	out    Encoded
}

const (
	// pageBytes is how much a page holds before it is full; one message may go beyond it.
	pageBytes = 64 << 10
	// pageRoom leaves space for the message that fills the page.
	pageRoom = pageBytes + 16<<10
	// pageMessages bounds the messages of a page, so that small events are not held up.
	pageMessages = 256
)

// pagePool implements mem.BufferPool for the buffers of pages. Those that outgrew their page are left to the collector.
type pagePool struct{ pool sync.Pool }

var pages pagePool

func (p *pagePool) Get(int) *[]byte {
	if buffer, ok := p.pool.Get().(*[]byte); ok {
		return buffer
	}
	buffer := make([]byte, 0, pageRoom)
	return &buffer
}

func (p *pagePool) Put(buffer *[]byte) {
	if cap(*buffer) == pageRoom {
		*buffer = (*buffer)[:0]
		p.pool.Put(buffer)
	}
}

// Add calls encode to append one message.
func (p *Page) Add(encode func(dst []byte) []byte) {
	if p.buffer == nil {
		p.buffer = pages.Get(pageRoom)
	}
	*p.buffer = encode(*p.buffer)
	p.ends = append(p.ends, len(*p.buffer))
}

// AddEvent appends one event.
func (p *Page) AddEvent(event Event, form UUIDForm) {
	p.Add(func(dst []byte) []byte { return AppendReadResponse(dst, event, form) })
}

// Full reports whether the page should be sent before more is added.
func (p *Page) Full() bool {
	return p.buffer != nil && (len(*p.buffer) >= pageBytes || len(p.ends) >= pageMessages)
}

// Send sends the messages and empties the page.
func (p *Page) Send(stream grpc.ServerStream) error {
	if len(p.ends) == 0 {
		return nil
	}
	whole := mem.NewBuffer(p.buffer, &pages)
	p.buffer = nil
	defer whole.Free()
	ends := p.ends
	p.ends = p.ends[:0]
	start := 0
	for _, end := range ends {
		p.out.Buffer = whole.Slice(start, end)
		if err := stream.SendMsg(&p.out); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// Fields of ReadResp that hold a stream's first and last revision.
const (
	fieldFirstPosition protowire.Number = 5
	fieldLastPosition  protowire.Number = 6
)

// AppendFirstPosition appends the encoded message that says which revision a stream begins with.
func AppendFirstPosition(dst []byte, revision uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, fieldFirstPosition, protowire.VarintType), revision)
}

// AppendLastPosition appends the encoded message that says which revision a stream ends with.
func AppendLastPosition(dst []byte, revision uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, fieldLastPosition, protowire.VarintType), revision)
}
