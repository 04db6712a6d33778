package httpapi

import (
	"embed"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/swaggest/swgui/v5emb"
)

//go:embed playground
var playground embed.FS

// docsPolicy keeps a key that was typed into the playground in its page: nothing is loaded from, and nothing can be
// sent to, another origin. Swagger UI sets styles inline and draws icons from data URLs.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// docsRoutes serves the OpenAPI document and the playground. They need no key.
func docsRoutes(r chi.Router, document []byte) {
	r.Get("/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(document)
	})
	// For its assets; the page is our own, because its script is not inline.
	static := &assets{files: v5emb.New("", "", "/docs"), kept: map[asset]*recording{}}
	r.Get("/docs", page)
	r.Get("/docs/*", func(w http.ResponseWriter, r *http.Request) {
		switch name := strings.TrimPrefix(r.URL.Path, "/docs/"); name {
		case "":
			page(w, r)
		case "start.js", "style.css":
			docsHeaders(w)
			http.ServeFileFS(w, r, playground, "playground/"+name)
		default:
			docsHeaders(w)
			static.ServeHTTP(w, r)
		}
	})
}

// health answers GET /healthz, for who divides requests among servers: 200 as long as this one takes new ones. It
// needs no key and no TLS, and says nothing else.
func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if a.Ending != nil && a.Ending().Err() != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("stopping\n"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// page answers GET /docs.
func page(w http.ResponseWriter, r *http.Request) {
	docsHeaders(w)
	http.ServeFileFS(w, r, playground, "playground/page.html")
}

func docsHeaders(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Security-Policy", docsPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
}
