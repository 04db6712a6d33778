package conversations

import (
	"encoding/json"
	"fmt"
	"io/fs"
)

// Conversation is a sequence of steps and how the server answered.
type Conversation struct {
	Area  string `json:"area"`
	Name  string `json:"name"`
	Ours  string `json:"ours"` // Optional. Why Carillon's node answers differently.
	Steps []step `json:"steps"`
}

// step is one of the actions whose field is set.
type step struct {
	Call    string `json:"call"`
	Open    string `json:"open"`
	Send    string `json:"send"`
	Receive string `json:"receive"`
	Silent  string `json:"silent"`
	Ended   string `json:"ended"`
	Half    string `json:"half_close"`
	Cancel  string `json:"cancel"`
	Pause   int    `json:"pause_ms"`
	HTTP    string `json:"http"`

	Request  []any             `json:"request"`
	Response []any             `json:"response"`
	Messages []any             `json:"messages"`
	Headers  map[string]string `json:"headers"`
	Skip     []string          `json:"skip"` // fields whose messages are passed over
	Millis   int               `json:"ms"`
	Type     string            `json:"type"`
	Status   json.RawMessage   `json:"status"` // a number for HTTP, else a callStatus
}

// callStatus is how a call ended.
type callStatus struct {
	Code     string            `json:"code"`
	Trailers map[string]string `json:"trailers"`
}

// Load reads a file of conversations.
func Load(files fs.FS, name string) ([]Conversation, error) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	var list []Conversation
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("conversations in %s: %w", name, err)
	}
	return list, nil
}
