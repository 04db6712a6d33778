package adminapi

import (
	"embed"
	"net/http"
	"sync"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/openapi"
	"carillon/cmd/internal/wire"
)

//go:embed openapi/*.yaml
var openapiFiles embed.FS

// OpenAPI returns the document of the admin API, OpenAPI 3.1 in JSON. It is assembled once.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	public, err := httpapi.OpenAPI()
	if err != nil {
		return nil, err
	}
	excerpt := openapi.Excerpt{Prefix: onBehalfPath, Parameter: "OrganizationPath", NotFound: "NotFound"}
	for _, route := range httpapi.OperatorRoutes() {
		excerpt.Take(route.Method, route.Path)
	}
	part, err := excerpt.Of(public)
	if err != nil {
		return nil, err
	}
	return openapi.Assemble(openapiFiles, part)
})

// document answers GET /admin/openapi.json. Nothing in it is secret, so that it needs no token.
func document(w http.ResponseWriter, r *http.Request) {
	content, err := OpenAPI()
	if err != nil {
		wire.Events.WriteError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(content)
}
