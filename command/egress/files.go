package egress

import (
	"net/http"
	"sync"
	"weak"
)

// Files bounds how many connections several transports have open together, so that files are left to others.
// Connections in use are never closed for that, only idle ones: of all transports, when one more would be too many.
type Files struct {
	max int

	mu         sync.Mutex
	open       int
	transports []weak.Pointer[http.Transport]
}

// NewFiles returns a bound for the transports whose options name it.
func NewFiles(most int) *Files { return &Files{max: most} }

// share adds a transport. It is forgotten when nothing else refers to it.
func (f *Files) share(transport *http.Transport) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.transports = append(f.transports, weak.Make(transport))
}

// take counts a connection that is about to be opened.
func (f *Files) take() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.open++
	var all []*http.Transport
	if f.open > f.max {
		kept := f.transports[:0]
		for _, weakly := range f.transports {
			if transport := weakly.Value(); transport != nil {
				all = append(all, transport)
				kept = append(kept, weakly)
			}
		}
		clear(f.transports[len(kept):])
		f.transports = kept
	}
	f.mu.Unlock()
	for _, transport := range all {
		transport.CloseIdleConnections()
	}
}

// giveBack counts a connection that was closed, or not opened.
func (f *Files) giveBack() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
}
