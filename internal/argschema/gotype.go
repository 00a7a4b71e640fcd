package argschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// A schemaObject is a JSON object that keeps the order of its fields, because the order of the
// properties is that of the parameters.
type schemaObject []schemaField

type schemaField struct {
	Name  string
	Value any
}

// OfType returns the JSON Schema of a Go type. An error names a type that has none, such as a channel.
func OfType(t reflect.Type) (json.RawMessage, error) {
	o, err := schemaOf(t, 0)
	if err != nil {
		return nil, err
	}
	return appendObject(nil, o), nil
}

// appendObject appends an object as JSON and keeps the order of its fields.
func appendObject(b []byte, o schemaObject) json.RawMessage {
	b = append(b, '{')
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(f.Name)
		b = append(append(b, name...), ':')
		if inner, ok := f.Value.(schemaObject); ok {
			b = appendObject(b, inner)
			continue
		}
		value, _ := json.Marshal(f.Value)
		b = append(b, value...)
	}
	return append(b, '}')
}

func schemaOf(t reflect.Type, depth int) (schemaObject, error) {
	kind := func(name string) (schemaObject, error) { return schemaObject{{Name: "type", Value: name}}, nil }
	switch {
	case depth > 8:
		return schemaObject{}, nil // a recursive type: accept anything
	case t == reflect.TypeFor[time.Time]():
		return schemaObject{{Name: "type", Value: "string"}, {Name: "format", Value: "date-time"}}, nil
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return schemaObject{}, nil
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return kind("string")
	}
	switch t.Kind() {
	case reflect.Bool:
		return kind("boolean")
	case reflect.String:
		return kind("string")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return kind("integer")
	case reflect.Float32, reflect.Float64:
		return kind("number")
	case reflect.Pointer:
		o, err := schemaOf(t.Elem(), depth+1)
		for i := range o {
			if name, ok := o[i].Value.(string); ok && o[i].Name == "type" {
				o[i].Value = []string{name, "null"}
			}
		}
		return o, err
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return schemaObject{{Name: "type", Value: "string"}, {Name: "format", Value: "binary"}}, nil
		}
		items, err := schemaOf(t.Elem(), depth+1)
		return schemaObject{{Name: "type", Value: "array"}, {Name: "items", Value: items}}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%s: map keys must be strings", t)
		}
		return kind("object")
	case reflect.Struct:
		return structSchema(t, depth)
	}
	return nil, fmt.Errorf("no JSON Schema for the Go type %s", t)
}

func structSchema(t reflect.Type, depth int) (schemaObject, error) {
	properties, required := schemaObject{}, []string{}
	for _, p := range structParameters(t) {
		o, err := schemaOf(p.Type, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if doc := p.Tag.Get("doc"); doc != "" {
			o = append(o, schemaField{Name: "description", Value: doc})
		}
		properties = append(properties, schemaField{Name: p.name, Value: o})
		if !p.optional {
			required = append(required, p.name)
		}
	}
	return schemaObject{{Name: "type", Value: "object"}, {Name: "properties", Value: properties}, {Name: "required", Value: required}}, nil
}
