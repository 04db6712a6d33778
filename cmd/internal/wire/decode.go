package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// MaxBody is the limit of a request body in bytes.
const MaxBody = 256 << 10

// Body is a request body that can say what is wrong with it.
type Body interface{ Check(*Checks) }

// Decode reads a JSON body strictly: the right content type, no encoding, at most MaxBody bytes, one value, no unknown
// or repeated members, no wrong types; then the body's own Check. Every failure names the field.
func Decode[T any, B interface {
	*T
	Body
}](r *http.Request) (T, error) {
	var body T
	if err := checkMedia(r.Header, "application/json"); err != nil {
		return body, err
	}
	data, err := ReadBody(r, MaxBody)
	if err != nil {
		return body, err
	}
	err = UnmarshalBody[T, B](data, &body)
	return body, err
}

// UnmarshalBody is Decode for a body that was read already.
func UnmarshalBody[T any, B interface {
	*T
	Body
}](data []byte, body *T) error {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // a byte order mark, as some editors write it into files
	if len(bytes.TrimSpace(data)) == 0 {
		return Fail(BadBody, "body", "is empty: send a JSON object")
	}
	if err := unmarshal(data, body); err != nil {
		return err
	}
	checks := &Checks{}
	B(body).Check(checks)
	if checks.failure != nil {
		return checks.failure
	}
	return nil
}

// DecodeOptional is Decode of a body that may be left out.
func DecodeOptional[T any, B interface {
	*T
	Body
}](r *http.Request) (T, error) {
	var body T
	data, err := ReadBody(r, MaxBody)
	if err != nil {
		return body, err
	}
	if len(data) == 0 {
		data = []byte("{}")
	} else if err := checkMedia(r.Header, "application/json"); err != nil {
		return body, err
	}
	err = UnmarshalBody[T, B](data, &body)
	return body, err
}

// DecodeNothing is for the routes that take no body: an empty one, or an object without members, is fine.
func DecodeNothing(r *http.Request) error {
	data, err := ReadBody(r, MaxBody)
	if err != nil || len(data) == 0 {
		return err
	}
	if r.Header.Get("Content-Type") != "" {
		if err := checkMedia(r.Header, "application/json"); err != nil {
			return err
		}
	}
	return unmarshal(data, &struct{}{})
}

// unmarshal decodes one JSON object strictly; its error is a *Failure that names the field.
func unmarshal(data []byte, into any) error {
	if err := json.Unmarshal(data, into, strictly); err != nil {
		return decodeFailure(err)
	}
	if jsontext.Value(data).Kind() == 'n' { // the library takes null for the zero value of anything
		return Fail(BadBody, "body", "must be an object, not null")
	}
	return nil
}

var strictly = json.JoinOptions(json.RejectUnknownMembers(true), json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(refuseNull), json.UnmarshalFromFunc(readInteger),
)))

// UnknownField is the issue of a member that a body must not have.
const UnknownField = "is not a known field: remove it, or check its spelling and case"

// readInteger reads a number without a fraction, however it is written: 1, 1.0 and 1e0 are one integer.
func readInteger(d *jsontext.Decoder, into *int) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	if whole, err := strconv.Atoi(string(text)); err == nil {
		*into = whole
		return nil
	}
	const exact = 1 << 53
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil || number != math.Trunc(number) || math.Abs(number) > exact {
		return Fail(BadBody, "", "must be an integer")
	}
	*into = int(number)
	return nil
}

// refuseNull refuses null as an element of a list or map of strings. Members that may be null are pointers.
func refuseNull(d *jsontext.Decoder, _ *string) error {
	if d.PeekKind() == 'n' {
		return Fail(BadBody, "", "must not be null: leave it out, or give it a value")
	}
	return errors.ErrUnsupported // the usual way of reading
}

// checkMedia refuses bodies of other types and encoded ones.
func checkMedia(h http.Header, want ...string) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return Fail(UnsupportedMedia, "Content-Encoding", "is not supported: send the body as it is")
	}
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil {
		charset := params["charset"]
		for _, w := range want {
			if media == w && (charset == "" || strings.EqualFold(charset, "utf-8")) {
				return nil
			}
		}
	}
	return Fail(UnsupportedMedia, "Content-Type", "must be %s", strings.Join(want, " or "))
}

// MediaType checks the content type as Decode does, and returns which of the wanted ones it is.
func MediaType(r *http.Request, want ...string) (string, error) {
	if err := checkMedia(r.Header, want...); err != nil {
		return "", err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media, err
}

// ReadBody reads a body of at most limit bytes.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	data, err := readAll(http.MaxBytesReader(nil, r.Body, limit), r.ContentLength)
	var over *http.MaxBytesError
	var failure *Failure
	switch {
	case errors.As(err, &failure): // of a body that refuses to be read
		return nil, failure
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, &Failure{
			Kind:  BadBody,
			Field: "body",
			Issue: "could not be read to its end",
			Cause: err,
		}
	}
	return data, nil
}

// announcedRoom is up to which size a body's own word for it is believed before it has come.
const announcedRoom = 16 << 10

// readAll reads a body with its announced length; negative if there is none.
func readAll(body io.Reader, length int64) ([]byte, error) {
	if length < 0 || length > announcedRoom {
		return io.ReadAll(body)
	}
	data := make([]byte, length)
	_, err := io.ReadFull(body, data)
	return data, err
}

func tooLarge(limit int64) *Failure {
	return Fail(TooLarge, "body", "is over the limit of %d bytes", limit)
}

// decodeFailure turns an error of the JSON library into words for the caller. The values sent are never repeated: they
// may be secrets.
func decodeFailure(err error) *Failure {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return Fail(BadBody, FieldPath(semantic.JSONPointer), UnknownField)
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return Fail(BadBody, FieldPath(syntactic.JSONPointer), "is given twice: send it once")
	case errors.As(err, &semantic):
		var own *Failure
		if errors.As(semantic.Err, &own) {
			return Fail(BadBody, FieldPath(semantic.JSONPointer), "%s", own.Issue)
		}
		return Fail(BadBody, FieldPath(semantic.JSONPointer), "must be %s%s", expected(semantic.GoType), notKind(semantic))
	case errors.As(err, &syntactic):
		return Fail(BadBody, "body", "is not valid JSON: see byte %d", syntactic.ByteOffset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Fail(BadBody, "body", "is not valid JSON: it ends too early")
	}
	return &Failure{
		Kind:  BadBody,
		Field: "body",
		Issue: "is not valid JSON",
		Cause: err,
	}
}

// FieldPath writes a JSON pointer as callers know it: "config.url", "feeds[0].feedId". A very long one is cut: it comes
// from the body, and must not fill the log and the answer.
func FieldPath(pointer jsontext.Pointer) string {
	var path strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case token == "":
			token = `""`
		case strings.Trim(token, "0123456789") == "":
			path.WriteString("[" + token + "]")
			continue
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(token)
	}
	const longest = 120
	switch text := []rune(path.String()); {
	case len(text) == 0:
		return "body"
	case len(text) > longest:
		return string(text[:longest]) + "…"
	}
	return path.String()
}

// notKind names the kind that was sent instead, if the kind alone shows it.
func notKind(err *json.SemanticError) string {
	kinds := map[jsontext.Kind]string{
		'n': "null",
		'f': "a boolean",
		't': "a boolean",
		'"': "a string",
		'0': "a number",
		'{': "an object",
		'[': "an array",
	}
	got, known := kinds[err.JSONKind]
	if !known || strings.HasPrefix(expected(err.GoType), got) {
		return ""
	}
	return ", not " + got
}

var textTypes = map[reflect.Type]string{
	reflect.TypeFor[uuid.UUID](): "a UUID",
	reflect.TypeFor[time.Time](): "an ISO 8601 time with Z or an offset",
}

// expected names the JSON that a Go type is read from.
func expected(t reflect.Type) string {
	if t == nil {
		return "valid"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if text, known := textTypes[t]; known {
		return text
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "valid"
}
