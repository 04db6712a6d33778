package structured_test

import "strings"

// schemaTerms are the terms of schema.org by our names of fields.
var schemaTerms = map[string]string{
	"title": "name", "start": "startDate", "end": "endDate", "description": "description", "url": "url",
	"location": "location",
	"status":   "eventStatus", "image": "image",
}

// schemaEvent reads an event of extruct, in any of the shapes for its syntaxes.
func schemaEvent(e any) wanted {
	props, _ := e.(map[string]any)
	if inner, ok := props["properties"].(map[string]any); ok {
		props = inner
	}
	w := wanted{}
	for field, term := range schemaTerms {
		for _, name := range []string{term, "https://schema.org/" + term, "http://schema.org/" + term} {
			if v, ok := props[name]; ok {
				w[field] = textIn(v)
			}
		}
	}
	return w
}

// textIn returns the text of a value, or the name of a thing.
func textIn(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, e := range v {
			if text := textIn(e); text != "" {
				return text
			}
		}
	case map[string]any:
		if inner, ok := v["properties"].(map[string]any); ok {
			v = inner
		}
		for _, key := range []string{"@value", "name", "https://schema.org/name", "http://schema.org/name", "url",
			"addressLocality"} {
			if text := textIn(v[key]); text != "" {
				return text
			}
		}
		if id, ok := v["@id"].(string); ok && !strings.HasPrefix(id, "_:") {
			return id
		}
	}
	return ""
}

// mfEvents returns the events of canonical microformats, at any depth.
func mfEvents(v any) []wanted {
	var found []wanted
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			found = append(found, mfEvents(e)...)
		}
	case map[string]any:
		types, _ := v["type"].([]any)
		props, _ := v["properties"].(map[string]any)
		for _, t := range types {
			if t != "h-event" {
				continue
			}
			w := wanted{}
			for field, name := range map[string]string{
				"title": "name", "start": "start", "end": "end", "description": "description", "url": "url", "location": "location",
				"image": "photo",
			} {
				w[field] = mfText(props[name])
			}
			found = append(found, w)
		}
		for _, inner := range v {
			found = append(found, mfEvents(inner)...)
		}
	}
	return found
}

func mfText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		if len(v) > 0 {
			return mfText(v[0])
		}
	case map[string]any:
		if props, ok := v["properties"].(map[string]any); ok {
			for _, name := range []string{"name", "street-address", "locality"} {
				if text := mfText(props[name]); text != "" {
					return text
				}
			}
		}
		return mfText(v["value"])
	}
	return ""
}
