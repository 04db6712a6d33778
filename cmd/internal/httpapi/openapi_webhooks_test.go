package httpapi_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/httpapi"
	"carillon/command/catalog"
	"carillon/command/webhook"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Each type of the catalog and each notice is a webhook of the document, and sent events match its schema.
func TestOpenAPIWebhooks(t *testing.T) {
	t.Parallel()
	document, err := httpapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := json.Unmarshal(document, &parsed); err != nil {
		t.Fatal(err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", resource); err != nil {
		t.Fatal(err)
	}
	known, err := catalog.New()
	if err != nil {
		t.Fatal(err)
	}
	notices, err := catalog.NoticeTypes()
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range slices.Concat(known.Types(), notices) {
		if _, is := parsed.Webhooks[declared.Name]; !is {
			t.Errorf("%s is no webhook of the document", declared.Name)
		}
	}
	put := documented.Document(t).Paths.Value("/events/notices").Put.Description
	for _, notice := range notices {
		if !strings.Contains(put, "`"+notice.Name+"`") {
			t.Errorf("PUT /events/notices does not name %s", notice.Name)
		}
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
		body, err := sent.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := matches(schema, body); err != nil {
			t.Errorf("%s: %s does not match: %v", name, body, err)
		}
		if err := matches(schema, bytes.Replace(body, []byte(name), []byte("another.type"), 1)); err == nil {
			t.Errorf("%s: the body of another type matches", name)
		}
	}
}

func matches(schema *jsonschema.Schema, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
