package httpapi

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"carillon/cmd/internal/openapi"
	"carillon/command/catalog"
)

//go:embed openapi/*.yaml
var openapiFiles embed.FS

// OpenAPI returns the API's document, OpenAPI 3.1 in JSON. It is assembled once.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	webhooks, err := webhooksPart()
	if err != nil {
		return nil, err
	}
	return openapi.Assemble(openapiFiles, webhooks)
})

// object is a member of the OpenAPI document whose value is a mapping.
type object = map[string]any

// webhooksPart returns what the document says of the webhooks: one for each type of the catalog and each notice, and a
// component for its body, so that generated clients have a type for each.
func webhooksPart() (object, error) {
	types, err := catalog.Types()
	if err != nil {
		return nil, err
	}
	notices, err := catalog.NoticeTypes()
	if err != nil {
		return nil, err
	}
	webhooks, schemas := object{}, object{}
	for i, t := range append(types, notices...) {
		var data object
		if err := yaml.Unmarshal(t.Schema, &data); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", t.Name, err)
		}
		delete(data, "$schema")
		name := componentName(t.Name)
		dataName := name + "Data"
		if i >= len(types) {
			dataName = "NoticeData"
		}
		schemas[dataName] = data
		schemas[name] = webhookBody(t, dataName)
		webhooks[t.Name] = object{"post": webhookOperation(t, name)}
	}
	return object{"webhooks": webhooks, "components": object{"schemas": schemas}}, nil
}

// componentName returns NewsItemAdded for news.item.added, DestinationAutoDisabled for destination.auto_disabled.
func componentName(eventType string) string {
	var name strings.Builder
	for word := range strings.FieldsFuncSeq(eventType, func(r rune) bool { return r == '.' || r == '_' }) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

func webhookOperation(t catalog.Type, component string) object {
	return object{
		"tags":        []string{"Webhooks"},
		"operationId": "on" + component,
		"summary":     t.Description,
		"security":    []any{},
		"parameters": []object{
			componentRef("parameters/WebhookId"),
			componentRef("parameters/WebhookTimestamp"),
			componentRef("parameters/WebhookSignature"),
		},
		"requestBody": object{
			"required": true,
			"content":  object{"application/json": object{"schema": componentRef("schemas/" + component)}},
		},
		"responses": object{
			"2XX":     object{"description": "Received. The body is kept with the attempt and otherwise ignored."},
			"410":     object{"description": "The destination is disabled."},
			"default": object{"description": "The delivery is retried."},
		},
	}
}

// webhookBody returns the schema of a whole body: the CloudEvents envelope around the data of a type.
func webhookBody(t catalog.Type, data string) object {
	text := object{"type": "string", "minLength": 1}
	required := []string{"id", "source", "specversion", "type", "subject", "time", "sequence", "datacontenttype", "data"}
	properties := object{
		"id":          text,
		"source":      text,
		"specversion": one("1.0"),
		"type":        one(t.Name),
		"subject":     object{"type": []string{"string", "null"}},
		"time":        object{"type": "string", "format": "date-time"},
		"sequence": object{
			"type":        "string",
			"pattern":     "^[0-9]{20}$",
			"description": "The place of the event in the log: later ones sort behind it as text.",
		},
		"datacontenttype": one("application/json"),
		"data":            componentRef("schemas/" + data),
	}
	if t.FeedType != "" {
		properties["feedtype"] = one(t.FeedType)
		properties["feedid"] = text
	}
	return object{
		"type":        "object",
		"description": t.Description,
		"required":    required,
		"properties":  properties,
	}
}

func componentRef(component string) object { return object{"$ref": "#/components/" + component} }

// one is the schema of a text that is always the same: an enumeration, which generators of clients know.
func one(text string) object { return object{"type": "string", "enum": []string{text}} }
