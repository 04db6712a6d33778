package httpapi

import (
	"bytes"
	"io/fs"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/swaggest/swgui/v5/static"
)

// assets serves the files of Swagger UI from memory, compressed or not. So a stream over HTTP/2 whose caller does not
// read holds no buffers without a key.
type assets struct {
	files http.Handler

	mu   sync.Mutex
	kept map[asset]*recording // of the files that exist, so few
}

type asset struct {
	path   string
	zipped bool
}

// recording is an answer. It is an http.ResponseWriter.
type recording struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recording) Header() http.Header { return r.header }

func (r *recording) WriteHeader(status int) { r.status = status }

func (r *recording) Write(p []byte) (int, error) { return r.body.Write(p) }

// ServeHTTP implements http.Handler.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/docs/")
	_, plain := fs.Stat(static.FS, name)
	_, zipped := fs.Stat(static.FS, name+".gz")
	if plain != nil && zipped != nil {
		a.files.ServeHTTP(w, r) // which has it neither
		return
	}
	answer := a.answer(r, asset{r.URL.Path, takesGzip(r.Header)})
	maps.Copy(w.Header(), answer.header)
	if tag := answer.header.Get("ETag"); tag != "" && r.Header.Get("If-None-Match") == tag {
		w.Header().Del("Content-Length")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(answer.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(answer.body.Bytes()) // a caller that has gone away has no use for an error
	}
}

// answer returns the answer to all requests for a file.
func (a *assets) answer(r *http.Request, of asset) *recording {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.kept[of]; known != nil {
		return known
	}
	made := &recording{header: http.Header{}, status: http.StatusOK}
	asked := r.Clone(r.Context())
	asked.Method, asked.Header = http.MethodGet, http.Header{}
	if of.zipped {
		asked.Header.Set("Accept-Encoding", "gzip")
	}
	a.files.ServeHTTP(made, asked)
	if made.status == http.StatusOK {
		a.kept[of] = made
	}
	return made
}

// takesGzip reports whether an answer may be compressed.
func takesGzip(h http.Header) bool {
	for one := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, quality, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";")
		never := quality != "" && strings.Trim(strings.TrimPrefix(quality, "q="), "0.") == ""
		if strings.EqualFold(coding, "gzip") && !never {
			return true
		}
	}
	return false
}
