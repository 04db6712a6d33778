package catalog

import (
	stdjson "encoding/json"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is a JSON value as schemas look at it: numbers as they were written.
type document struct{ value any }

// parse reads a document as jsonschema.UnmarshalJSON does, which takes three times the memory for it.
func parse(data []byte) (any, error) {
	var d document
	err := json.Unmarshal(data, &d, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return d.value, err
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (d *document) UnmarshalJSONFrom(from *jsontext.Decoder) (err error) {
	d.value, err = next(from)
	return err
}

// next reads one value. The decoder bounds how deep it is nested.
func next(from *jsontext.Decoder) (any, error) {
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		return stdjson.Number(token.String()), nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	case jsontext.KindBeginArray:
		list := []any{}
		for from.PeekKind() != jsontext.KindEndArray {
			element, err := next(from)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = from.ReadToken()
		return list, err
	case jsontext.KindBeginObject:
		object := map[string]any{}
		for from.PeekKind() != jsontext.KindEndObject {
			name, err := from.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // valid until the next is read
			if object[key], err = next(from); err != nil {
				return nil, err
			}
		}
		_, err = from.ReadToken()
		return object, err
		// those but null were errors
	case jsontext.KindNull, jsontext.KindInvalid, jsontext.KindEndArray, jsontext.KindEndObject:
	}
	return nil, nil //nolint:nilnil // null
}
