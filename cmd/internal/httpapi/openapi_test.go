package httpapi_test

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command/catalog"
	"carillon/command/webhook"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The document describes every route, and no route that there isn't.
func TestDocumentAndRouterAgree(t *testing.T) {
	documented.CheckRoutes(t, serve(t).api.Routes(), "/docs/*")
}

// The document's lists are those that the program declares.
func TestDocumentListsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	documented.CheckLists(t, nil, apitest.Lists()...)
}

func TestNoRouteFailsAtHostileValues(t *testing.T) {
	s := serve(t)
	feed, _ := s.eventFeed(t)
	known := map[string]string{
		"ref":    s.subscribed(t, "crm").ID,
		"subRef": "all",
		"feedId": feed.ID,
		"id":     feed.ID,
	}
	documented.Walk(t, known, func(method, path, body string) int {
		return s.do(t, request{method: method, path: path, body: body}).status
	})
}

// TestHealth: who divides requests among servers needs no key and no TLS, and learns of a stop.
func TestHealth(t *testing.T) {
	s := serveAlone(t)
	ending, stop := context.WithCancel(t.Context())
	s.rewire(t, func(d *httpapi.Dependencies) { d.Ending = func() context.Context { return ending } })
	if got := s.as("none").get(t, "/healthz"); got.status != 200 || got.body != "ok\n" {
		t.Errorf("answered %d %q", got.status, got.body)
	}
	stop()
	if got := s.as("none").get(t, "/healthz"); got.status != 503 || got.body != "stopping\n" {
		t.Errorf("a server that stops answered %d %q", got.status, got.body)
	}
}

func TestDocumentationNeedsNoKeyAndStaysHere(t *testing.T) {
	s := serve(t)
	for path, want := range map[string]string{
		"/openapi.json":              `"openapi":"3.1.0"`,
		"/docs":                      "/docs/start.js",
		"/docs/":                     "/docs/start.js",
		"/docs/start.js":             "SwaggerUIBundle",
		"/docs/style.css":            "prefers-color-scheme: dark",
		"/docs/swagger-ui-bundle.js": "",
		"/docs/swagger-ui.css":       "",
	} {
		got := s.as("none").get(t, path)
		assert.True(t, got.status == http.StatusOK && strings.Contains(got.body, want),
			"GET %s: %d, without %q", path, got.status, want)
		if !strings.HasPrefix(path, "/docs") {
			continue
		}
		policy := got.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self';"} {
			assert.True(t, strings.Contains(policy, part), "GET %s: the policy %q lacks %q", path, policy, part)
		}
		if strings.HasPrefix(got.header.Get("Content-Type"), "text/html") && strings.Contains(got.body, "<script>") {
			t.Errorf("GET %s has an inline script, which its own policy blocks", path)
		}
	}
	for coding, zipped := range map[string]bool{
		"":            false,
		"br, gzip":    true,
		"gzip;q=0":    false,
		"gzip; q=0.5": true,
		"br":          false,
	} {
		path, header := "/docs/swagger-ui.css", map[string]string{"Accept-Encoding": coding}
		for range 2 { // the second comes from memory
			got := s.do(t, request{path: path, key: "none", header: header})
			is := got.header.Get("Content-Encoding") == "gzip"
			assert.True(t, got.status == 200 && is == zipped && strings.HasPrefix(got.body, "\x1f\x8b") == zipped,
				"accepted %q: %d %v, compressed: %t", coding, got.status, got.header, is)
			header["If-None-Match"] = got.header.Get("ETag")
			if again := s.do(t, request{path: path, key: "none", header: header}); again.status != 304 || again.body != "" {
				t.Errorf("again, with ETag %q: %d", header["If-None-Match"], again.status)
			}
			delete(header, "If-None-Match")
		}
	}
	assert.Equal(t, s.as("none").get(t, "/docs/none.js").status, http.StatusNotFound, "GET /docs/none.js")
}

// Each type of the catalog and each notice is a webhook of the document, and sent events match its schema.
func TestOpenAPIWebhooks(t *testing.T) {
	t.Parallel()
	document := must.Get(httpapi.OpenAPI())(t)
	var parsed struct {
		Webhooks map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema struct {
							Ref string `json:"$ref"`
						} `json:"schema"`
					} `json:"content"`
				} `json:"requestBody"`
			} `json:"post"`
		} `json:"webhooks"`
	}
	must.OK(t, json.Unmarshal(document, &parsed))
	resource := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(document)))(t)
	compiler := jsonschema.NewCompiler()
	must.OK(t, compiler.AddResource("openapi.json", resource))
	known := must.Get(catalog.New())(t)
	notices := must.Get(catalog.NoticeTypes())(t)
	for _, declared := range slices.Concat(known.Types(), notices) {
		_, is := parsed.Webhooks[declared.Name]
		assert.True(t, is, "%s is no webhook of the document", declared.Name)
	}
	put := documented.Document(t).Paths.Value("/events/notices").Put.Description
	for _, notice := range notices {
		assert.True(t, strings.Contains(put, "`"+notice.Name+"`"), "PUT /events/notices does not name %s", notice.Name)
	}
	samples := map[string]string{
		"news.item.added":          `{"id":"7","title":"A bridge opens"}`,
		"news.item.updated":        `{"id":"7","title":"A bridge opens","changedFields":["title"]}`,
		"factcheck.status.changed": `{"id":"f1","status":"completed"}`,
		"destination.failing": `{"destinationId":"0190a7e4-0000-7000-8000-000000000001","count":1,"message":"50 of 100",
			"where":{"api":"/events/destinations/1","console":"/console/destinations/1"},"consecutiveFailures":50,
			"event":{"id":"0190a7e4-0000-7000-8000-000000000002"},"lastAnswer":{"responseStatus":500}}`,
	}
	for name, w := range parsed.Webhooks {
		schema, err := compiler.Compile("openapi.json" + w.Post.RequestBody.Content["application/json"].Schema.Ref)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		data, ok := samples[name]
		if !ok {
			continue
		}
		sent := webhook.Envelope{
			ID:       "e1",
			Source:   "/feeds/news/7",
			Type:     name,
			FeedType: "news",
			FeedID:   "7",
			Time:     time.Unix(0, 0),
			Data:     []byte(data),
		}
		body := must.Get(sent.AppendJSON(nil))(t)
		assert.Is(t, matches(schema, body), nil, "%s: %s does not match", name, body)
		assert.True(t, matches(schema, bytes.Replace(body, []byte(name), []byte("another.type"), 1)) != nil,
			"%s: the body of another type matches", name)
	}
}

func matches(schema *jsonschema.Schema, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func TestExamplesAreRight(t *testing.T) {
	t.Parallel()
	documented.CheckExamples(t, map[string][]string{
		"400": {"INVALID_BODY", "INVALID_PARAMS", "INVALID_QUERY", "VALIDATION_FAILED", "BAD_REQUEST"},
		"401": {"AUTHENTICATION_FAILED", "UNAUTHORIZED"},
		"403": {"FORBIDDEN"},
		"404": {"NOT_FOUND"},
		"409": {"ALREADY_EXISTS", "CONFLICT"},
		"413": {"INVALID_BODY", "BAD_REQUEST"},
		"415": {"INVALID_BODY", "BAD_REQUEST"},
		"429": {"RATE_LIMITED"},
		"500": {"INTERNAL_ERROR", "INTERNAL_SERVER_ERROR"},
		"503": {"SERVICE_UNAVAILABLE"},
	})
}

// Every example of a request is accepted, in the order in which a reader tries them, by an organization with a feed
// that has an item, and with the source of a development server.
func TestExamplesOfRequestsAreAccepted(t *testing.T) {
	s := serve(t)
	w := s.filledFeed(t)
	s.Source(t, dev.ExampleSource, "")
	paths := documented.Document(t).Paths.Map()
	fill := strings.NewReplacer("{ref}", "crm", "{subRef}", "news", "{id}", w.feed, "{feedId}", w.feed, "{itemId}", w.item)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
			operation := paths[path].Operations()[method]
			if operation == nil || operation.RequestBody == nil || operation.OperationID == "answerWebhook" { // none waits
				continue
			}
			media := operation.RequestBody.Value.Content["application/json"]
			examples := map[string]any{}
			if media.Example != nil {
				examples["the only one"] = media.Example
			}
			for name, named := range media.Examples {
				examples[name] = named.Value.Value
			}
			for _, name := range slices.Sorted(maps.Keys(examples)) {
				body := must.Get(json.Marshal(examples[name]))(t)
				got := s.do(t, request{method: method, path: fill.Replace(path), body: string(body)})
				assert.True(t, got.status < http.StatusMultipleChoices,
					"%s %s, example %s: %d %s", method, path, name, got.status, got.body)
			}
		}
	}
}
