package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"strings"
)

// body reads the body of a request: one value of JSON with known fields.
func body(r *http.Request, v any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return Errorf(BadMedia, "the Content-Type must be application/json; it is %q", r.Header.Get("Content-Type"))
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Errorf(BadRequest, "the body is empty; it must be a value of JSON")
	}
	if err == nil {
		_, more := d.Token()
		var large *http.MaxBytesError
		var slow net.Error
		switch {
		case errors.Is(more, io.EOF):
			return nil
		case errors.As(more, &large), errors.As(more, &slow):
			err = more
		default:
			return Errorf(BadRequest, "the body: something follows the value")
		}
	}
	return bodyError(err)
}

// bodyError says what is wrong with a body in the words of the API.
func bodyError(err error) error {
	var large *http.MaxBytesError
	var slow net.Error
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &large):
		return Errorf(TooLarge, "the body has more than %d bytes", large.Limit)
	case errors.As(err, &slow) && slow.Timeout():
		return Errorf(TooSlow, "the body has not come in time")
	case errors.As(err, &kind):
		field := kind.Field[strings.LastIndex(kind.Field, ".")+1:]
		if field == "" {
			field = "it"
		}
		return Errorf(BadRequest, "the body: %s must be %s; it is a JSON %s", field, jsonKind(kind.Type), kind.Value)
	case errors.As(err, &syntax):
		return Errorf(BadRequest, "the body is no JSON: %v, at byte %d", syntax, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Errorf(BadRequest, "the body is no JSON: it ends within a value")
	}
	return Errorf(BadRequest, "the body: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// jsonKind is what a value of a type is in JSON.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number in range"
}

// submissionBody reads a submission. A number that is given is never taken for one that is not.
func submissionBody(r *http.Request) (*Submission, error) {
	var given struct {
		Submission
		Partitions *int `json:"partitions"`
		Workers    *int `json:"workers"`
	}
	if err := body(r, &given); err != nil {
		return nil, err
	}
	s := given.Submission
	for _, n := range []struct {
		name  string
		given *int
		to    *int
	}{{"partitions", given.Partitions, &s.Partitions}, {"workers", given.Workers, &s.Workers}} {
		if n.given == nil {
			continue
		}
		if *n.given < 1 {
			return nil, Errorf(BadRequest, "%s must be at least 1; it is %d", n.name, *n.given)
		}
		*n.to = *n.given
	}
	return &s, nil
}
