package argschema

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Parameters are those of a Go function whose one argument is a struct.
type Parameters []parameter

// ParametersOf returns the fields of a struct as parameters. Reading their tags takes longer than
// assigning the arguments of a call, so a function reads them once.
func ParametersOf(t reflect.Type) Parameters { return structParameters(t) }

// Assign stores the arguments of a call in a struct of the type, and returns what is wrong with them.
func (p Parameters) Assign(to reflect.Value, args map[string]any) (faults []string) {
	return assignStruct(nil, "", to, args, p)
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
	return addFault(fmt.Sprintf("is %s, not a %s", Describe(v), t))
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
	for i := 0; i < len(v) && len(faults) <= MaxListedFaults; i++ {
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
