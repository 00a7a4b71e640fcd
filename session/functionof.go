package session

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/argschema"
)

// FunctionOf makes a Function from f. In must be a struct: its fields are the parameters, in order,
// under their JSON names. A field is optional if it is a pointer or has omitempty or omitzero. The
// tag doc describes a parameter. FunctionOf panics if In is not such a struct.
//
//	type Query struct {
//		SQL   string `json:"sql" doc:"one statement"`
//		Limit int    `json:"limit,omitempty"`
//	}
//	session.FunctionOf("query", "Runs SQL.", func(ctx context.Context, q Query) ([]Row, error) { … })
func FunctionOf[In, Out any](name, doc string, f func(ctx context.Context, in In) (Out, error)) Function {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("session.FunctionOf: the parameters of %s are a %s, not a struct", name, t))
	}
	params, err := schemaJSON(t)
	if err != nil {
		panic(fmt.Sprintf("session.FunctionOf: %s: %v", name, err))
	}
	returns, err := schemaJSON(reflect.TypeFor[Out]())
	if err != nil {
		returns = nil // a type without a schema, such as a channel
	}
	fn := Function{Name: name, Doc: doc, Params: params, Returns: returns}
	known := structParameters(t) // once: reading the tags takes longer than the rest of a call's arguments
	if f != nil {                // otherwise Check refuses it
		fn.Call = func(ctx context.Context, args map[string]any) (any, error) {
			var in In
			var faults []string
			faults = assignStruct(faults, "", reflect.ValueOf(&in).Elem(), args, known)
			if text := argschema.JoinFaults(name, faults); text != "" {
				return nil, &CallError{"TypeError", text}
			}
			return f(ctx, in)
		}
	}
	return fn
}

// A schemaObject is a JSON object that keeps the order of its fields, because the order of the
// properties is that of the parameters.
type schemaObject []schemaField

type schemaField struct {
	Name  string
	Value any
}

// schemaJSON returns the JSON Schema of a Go type.
func schemaJSON(t reflect.Type) (json.RawMessage, error) {
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

// A parameter is a struct field with the name that it has in JSON.
type parameter struct {
	reflect.StructField
	name     string
	optional bool
}

// structParameters returns the fields that a struct has in JSON, including those of embedded
// structs.
func structParameters(t reflect.Type) []parameter {
	var list []parameter
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
			for _, inner := range structParameters(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				list = append(list, inner)
			}
			continue
		}
		if !f.IsExported() || name == "-" && options == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		optional := strings.Contains(options, "omit") || f.Type.Kind() == reflect.Pointer
		list = append(list, parameter{f, name, optional})
	}
	return list
}

// assignValue stores a value from session code in to, and appends any faults to wrong. path locates
// the value in the arguments.
func assignValue(faults []string, path string, to reflect.Value, v any) []string {
	t := to.Type()
	addFault := func(why string) []string { return append(faults, path+" "+why) }
	switch {
	case t.Kind() == reflect.Pointer:
		if v == nil {
			return faults
		}
		to.Set(reflect.New(t.Elem()))
		return assignValue(faults, path, to.Elem(), v)
	case t.Kind() == reflect.Interface && t.NumMethod() == 0:
		if v != nil {
			to.Set(reflect.ValueOf(v))
		}
		return faults
	case v == nil:
		if isNilable(t) {
			return faults
		}
		return addFault("is null")
	case reflect.TypeOf(v) == t:
		to.Set(reflect.ValueOf(v))
		return faults
	}
	if text, ok := v.(string); ok && to.CanAddr() {
		if u, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok { // for example a time as text
			if err := u.UnmarshalText([]byte(text)); err != nil {
				return addFault("is invalid: " + err.Error())
			}
			return faults
		}
	}
	switch v := v.(type) {
	case bool:
		if t.Kind() == reflect.Bool {
			to.SetBool(v)
			return faults
		}
	case int64, uint64, float64:
		return assignNumber(faults, path, to, v)
	case string:
		switch {
		case t.Kind() == reflect.String:
			to.SetString(v)
			return faults
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
			to.SetBytes([]byte(v))
			return faults
		}
	case []byte:
		switch {
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
			to.SetBytes(v)
			return faults
		case t.Kind() == reflect.String:
			return addFault("is bytes, not text")
		}
	case []any:
		return assignList(faults, path, to, v)
	case map[string]any:
		return assignMap(faults, path, to, v)
	}
	return addFault(fmt.Sprintf("is %s, not a %s", argschema.Describe(v), t))
}

func isNilable(t reflect.Type) bool {
	return t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Interface
}

// assignNumber stores a number in to, if to is a float or can hold the number exactly.
func assignNumber(faults []string, path string, to reflect.Value, v any) []string {
	number := reflect.ValueOf(v)
	if to.CanFloat() {
		to.SetFloat(number.Convert(reflect.TypeFor[float64]()).Float())
		return faults
	}
	if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
		number = reflect.ValueOf(int64(f))
	}
	switch {
	case to.CanInt() && number.CanInt() && !to.OverflowInt(number.Int()):
		to.SetInt(number.Int())
	case to.CanUint() && number.CanInt() && number.Int() >= 0 && !to.OverflowUint(uint64(number.Int())):
		to.SetUint(uint64(number.Int()))
	case to.CanUint() && number.CanUint() && !to.OverflowUint(number.Uint()):
		to.SetUint(number.Uint())
	default:
		return append(faults, fmt.Sprintf("%s is %v, which is not a valid %s", path, v, to.Type()))
	}
	return faults
}

func assignList(faults []string, path string, to reflect.Value, v []any) []string {
	switch {
	case to.Kind() == reflect.Slice:
		to.Set(reflect.MakeSlice(to.Type(), len(v), len(v)))
	case to.Kind() != reflect.Array || to.Len() != len(v):
		return append(faults, fmt.Sprintf("%s is an array of %d, not a %s", path, len(v), to.Type()))
	}
	for i := 0; i < len(v) && len(faults) <= argschema.MaxListedFaults; i++ {
		faults = assignValue(faults, fmt.Sprintf("%s[%d]", path, i), to.Index(i), v[i])
	}
	return faults
}

func assignMap(faults []string, path string, to reflect.Value, v map[string]any) []string {
	t := to.Type()
	dot := path
	if dot != "" {
		dot += "."
	}
	switch {
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		to.Set(reflect.MakeMapWithSize(t, len(v)))
		for name, value := range v {
			entry := reflect.New(t.Elem()).Elem()
			faults = assignValue(faults, dot+name, entry, value)
			to.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), entry)
		}
		return faults
	case t.Kind() != reflect.Struct:
		return append(faults, fmt.Sprintf("%s is an object, not a %s", path, t))
	}
	return assignStruct(faults, dot, to, v, structParameters(t))
}

// assignStruct stores an object in a struct with these parameters. prefix comes before the names in
// faults.
func assignStruct(faults []string, prefix string, to reflect.Value, v map[string]any, known []parameter) []string {
	for name := range v {
		if !slices.ContainsFunc(known, func(p parameter) bool { return p.name == name }) {
			faults = append(faults, "unknown "+prefix+name)
		}
	}
	for _, p := range known {
		value, given := v[p.name]
		switch {
		case given:
			faults = assignValue(faults, prefix+p.name, to.FieldByIndex(p.Index), value)
		case !p.optional:
			faults = append(faults, "missing "+prefix+p.name)
		}
	}
	return faults
}
