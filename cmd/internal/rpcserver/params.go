package rpcserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// dataParams are params whose field "data" may be the buffer of the request.
type dataParams interface {
	// SetData sets the field, and reports false if it is set already.
	SetData(data []byte) bool
}

// Decode reads params, which must be an object, into p. A field that p does not have is an error,
// so that a misspelt field is not mistaken for a default.
func (r *Request) Decode(p any) error {
	params := r.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	if params[0] != '{' {
		return InvalidParams("params must be an object")
	}
	if bytes.Contains(params, []byte(`"_meta"`)) { // describes the call, and is not a parameter of the method
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(params, &fields); err != nil {
			return InvalidParams("%s: %v", r.Method, err)
		}
		delete(fields, "_meta")
		params = mustMarshal(fields)
	}
	if err := checkKeys(params, p); err != nil {
		return InvalidParams("%s: %v", r.Method, err)
	}
	d := json.NewDecoder(bytes.NewReader(params))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return InvalidParams("%s: %s has a JSON %s: use %s", r.Method, wrong.Field, wrong.Value, jsonType(wrong.Type))
		}
		return InvalidParams("%s: %v", r.Method, err)
	}
	if r.Buffer == nil {
		return nil
	}
	large, ok := p.(dataParams)
	if !ok || !large.SetData(r.Buffer) {
		return InvalidParams("%s takes no buffer, or its data was given twice", r.Method)
	}
	return nil
}

// jsonType names the JSON type that a Go type is decoded from.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "an integer"
	}
}

// checkKeys rejects two mistakes that encoding/json accepts: a field name in another letter case,
// and a repeated field, whose last value would count. params is an object, and p points to a
// struct.
func checkKeys(params []byte, p any) error {
	if reflect.TypeOf(p).Elem().Kind() != reflect.Struct {
		return nil
	}
	known := make(map[string]bool)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(p).Elem()) { // including embedded ones
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = !f.Anonymous
	}
	d := json.NewDecoder(bytes.NewReader(params))
	if _, err := d.Token(); err != nil { // {
		return err
	}
	seen := make(map[string]bool)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if !known[name] {
			return fmt.Errorf("json: unknown field %q", name)
		}
		if seen[name] {
			return fmt.Errorf("duplicate field %q", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}
