package apiclient

import (
	"bufio"
	"context"
	"strings"
	"time"
)

const (
	maxEvent  = 16 << 20         // bytes
	silentFor = 30 * time.Second // after which a stream counts as lost; the server writes every few seconds
)

// Event is a server-sent event.
type Event struct{ Name, ID, Data string }

// Stream reads server-sent events and handles one at a time, until the stream ends. It calls opened when the stream has
// begun. A failure that the server answers with is an *Error.
func (c *Client) Stream(ctx context.Context, path string, opened func(), handle func(Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(silentFor, cancel)
	defer silence.Stop()
	response, err := c.get(ctx, path, "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	opened()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEvent)
	var event Event
	for lines.Scan() {
		silence.Stop()
		if lines.Text() == "" && event.Data != "" {
			handle(event)
			event = Event{}
		}
		event.add(lines.Text())
		silence.Reset(silentFor)
	}
	return lines.Err()
}

// add reads one line of an event. A comment has no name.
func (e *Event) add(line string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		e.Name = value
	case "id":
		e.ID = value
	case "data":
		e.Data += value
	}
}
