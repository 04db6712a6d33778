package httpapi_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"carillon/cmd/internal/httpapi"
	"carillon/command/catalog"
	"carillon/command/webhook"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Each type of the catalog is a webhook of the document, and sent events match its schema.
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
	if len(parsed.Webhooks) != len(known.Types()) {
		t.Errorf("%d webhooks, want one for each of %d types", len(parsed.Webhooks), len(known.Types()))
	}
	samples := map[string]string{
		"news.item.added":          `{"id":"7","title":"A bridge opens"}`,
		"news.item.updated":        `{"id":"7","title":"A bridge opens","changedFields":["title"]}`,
		"factcheck.status.changed": `{"id":"f1","status":"completed"}`,
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
