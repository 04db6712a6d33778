package conversations

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	uuidMessage   = "event_store.client.UUID"
	anyMessage    = "google.protobuf.Any"
	statusMessage = "google.rpc.Status"
)

// newMessage returns an empty message of a type that is linked into the program.
func newMessage(of protoreflect.MessageDescriptor) (proto.Message, error) {
	known, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", of.FullName(), err)
	}
	return known.New().Interface(), nil
}

// parseMessage makes the message that a tree of JSON describes, whose placeholders have been replaced.
func parseMessage(of protoreflect.MessageDescriptor, tree any) (proto.Message, error) {
	message, err := newMessage(of)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeBytes(of, tree)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(encoded)
	if err != nil {
		return nil, err
	}
	return message, protojson.Unmarshal(text, message)
}

// encodeBytes writes the bytes fields of a message as protobuf JSON has them.
func encodeBytes(of protoreflect.MessageDescriptor, tree any) (any, error) {
	fields, ok := tree.(map[string]any)
	if !ok {
		return tree, nil // such as a duration
	}
	encoded := make(map[string]any, len(fields))
	for name, value := range fields {
		encoded[name] = value
		field := of.Fields().ByName(protoreflect.Name(name))
		if field == nil || field.IsMap() || field.Message() == nil && field.Kind() != protoreflect.BytesKind {
			continue
		}
		list, repeated := value.([]any)
		if !repeated {
			list = []any{value}
		}
		values := make([]any, 0, len(list))
		for _, item := range list {
			item, err := encodeValue(field, item)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			values = append(values, item)
		}
		encoded[name] = values
		if !repeated {
			encoded[name] = values[0]
		}
	}
	return encoded, nil
}

func encodeValue(field protoreflect.FieldDescriptor, value any) (any, error) {
	if field.Message() != nil {
		return encodeBytes(field.Message(), value)
	}
	text, _ := value.(string)
	content, err := parseBytes(text)
	return base64.StdEncoding.EncodeToString(content), err
}

// parseBytes returns what "b:…", "x:…" or "r:N:x" stands for.
func parseBytes(text string) ([]byte, error) {
	kind, content, _ := strings.Cut(text, ":")
	switch kind {
	case "b":
		return []byte(content), nil
	case "x":
		return hex.DecodeString(content)
	case "r":
		count, letter, _ := strings.Cut(content, ":")
		n, err := strconv.Atoi(count)
		return []byte(strings.Repeat(letter, n)), err
	}
	return nil, fmt.Errorf("bytes are b:, x: or r:, not %q", text)
}

// content is the value of a bytes field in a tree.
type content []byte

// tree returns a message as the conversations have it, with content in place of bytes.
func tree(message protoreflect.Message) (any, error) {
	switch message.Descriptor().FullName() {
	case uuidMessage:
		return uuidTree(message)
	case anyMessage:
		return anyTree(message)
	}
	if message.Descriptor().ParentFile().Package() == "google.protobuf" {
		text, err := protojson.Marshal(message.Interface())
		if err != nil {
			return nil, err
		}
		var value any
		err = json.Unmarshal(text, &value)
		return value, err
	}
	fields := map[string]any{}
	var failed error
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fields[string(field.Name())], failed = fieldTree(field, value)
		return failed == nil
	})
	if message.Descriptor().FullName() == statusMessage {
		asRecorded(fields)
	}
	return fields, failed
}

// asRecorded converts a status to the form of EventStoreDB's own .proto file: the name of its code, one detail.
func asRecorded(fields map[string]any) {
	if number, ok := fields["code"].(float64); ok {
		fields["code"] = code.Code(number).String()
	}
	if details, ok := fields["details"].([]any); ok && len(details) == 1 {
		fields["details"] = details[0]
	}
}

func fieldTree(field protoreflect.FieldDescriptor, value protoreflect.Value) (any, error) {
	switch {
	case field.IsMap():
		entries := map[string]any{}
		var failed error
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			entries[key.String()], failed = valueTree(field.MapValue(), value)
			return failed == nil
		})
		return entries, failed
	case field.IsList():
		list := make([]any, 0, value.List().Len())
		for i := range value.List().Len() {
			item, err := valueTree(field, value.List().Get(i))
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	}
	return valueTree(field, value)
}

func valueTree(field protoreflect.FieldDescriptor, value protoreflect.Value) (any, error) {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return tree(value.Message())
	case protoreflect.BytesKind:
		return content(value.Bytes()), nil
	case protoreflect.EnumKind:
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			return string(known.Name()), nil
		}
		return float64(value.Enum()), nil
	case protoreflect.BoolKind:
		return value.Bool(), nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return float64(value.Int()), nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return float64(value.Uint()), nil
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return value.Float(), nil
	default: // text, and integers of 64 bits
		return value.String(), nil
	}
}

// uuidTree returns an id in its one form, whichever the server chose.
func uuidTree(message protoreflect.Message) (any, error) {
	field := message.WhichOneof(message.Descriptor().Oneofs().ByName("value"))
	if field == nil {
		return map[string]any{}, nil
	}
	if field.Name() == "string" {
		return map[string]any{"string": message.Get(field).String()}, nil
	}
	halves := message.Get(field).Message()
	var id uuid.UUID
	for i, name := range []protoreflect.Name{"most_significant_bits", "least_significant_bits"} {
		bits := halves.Get(halves.Descriptor().Fields().ByName(name)).Int()
		for j := range 8 {
			id[8*i+j] = byte(bits >> (56 - 8*j)) //nolint:gosec // one byte after the other
		}
	}
	return map[string]any{"string": id.String()}, nil
}

func anyTree(message protoreflect.Message) (any, error) {
	packed, ok := message.Interface().(*anypb.Any)
	if !ok {
		return nil, fmt.Errorf("%T is no Any", message.Interface())
	}
	inner, err := packed.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	value, err := tree(inner.ProtoReflect())
	if err != nil {
		return nil, err
	}
	fields, ok := value.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	fields["@type"] = packed.GetTypeUrl()
	return fields, nil
}
