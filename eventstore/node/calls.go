package node

import (
	"strings"
	"sync"
)

// calls counts what clients ask for, by the names of the methods that there are.
type calls struct {
	mu      sync.Mutex
	methods map[string]*callCount
}

type callCount struct {
	Begun    int64 `json:"begun"`
	UnderWay int64 `json:"underWay"`
}

// begin counts a call, of a method the node has: full names are those that gRPC has found.
func (c *calls) begin(method string) (end func()) {
	name := strings.TrimPrefix(method, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.methods == nil {
		c.methods = make(map[string]*callCount)
	}
	count := c.methods[name]
	if count == nil {
		count = &callCount{}
		c.methods[name] = count
	}
	count.Begun++
	count.UnderWay++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		count.UnderWay--
	}
}

func (c *calls) all() map[string]callCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]callCount, len(c.methods))
	for name, count := range c.methods {
		all[name] = *count
	}
	return all
}
