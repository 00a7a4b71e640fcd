// Package argschema describes the parameters of a function by a JSON Schema, and checks arguments
// against it: their names and their types. The supervisor checks calls with it before a function runs.
// session.FunctionOf makes the schema of a Go function with it, and stores arguments in its struct.
//
// It starts no goroutines.
package argschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Schema is the part of a JSON Schema that arguments are checked against: names and types. Other
// keywords serve the language's help and the function itself.
type Schema struct {
	Type                 typeNames          `json:"type"`
	Properties           map[string]*Schema `json:"properties"`
	Required             []string           `json:"required"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Items                *Schema            `json:"items"`
}

// typeNames holds the names of the allowed JSON types; empty allows any type.
type typeNames []string

func (n *typeNames) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*n = typeNames{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(n))
}

// UnmarshalJSON accepts a schema, or true or false, which JSON Schema allows. It treats both as a
// schema of anything.
func (s *Schema) UnmarshalJSON(b []byte) error {
	var boolean bool
	if json.Unmarshal(b, &boolean) == nil {
		return nil
	}
	type plain Schema
	var list []json.RawMessage
	if json.Unmarshal(b, &list) == nil {
		return nil // a list of items schemas from an older draft
	}
	return json.Unmarshal(b, (*plain)(s))
}

// Parse reads the schema of a function's parameters, which must be of type object.
func Parse(text []byte) (*Schema, error) {
	var s Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if len(s.Type) > 0 && !slices.Contains(s.Type, "object") {
		return nil, errors.New(`its type is not "object"`)
	}
	for _, name := range s.Required {
		if len(s.Properties) > 0 && s.Properties[name] == nil {
			return nil, fmt.Errorf("required parameter %q is not among its properties", name)
		}
	}
	return &s, nil
}

// isClosed reports whether arguments that are not listed are faults. That is the default, as for a
// function of any language.
func (s *Schema) isClosed() bool {
	open := string(s.AdditionalProperties)
	return open == "false" || open == "" && s.Properties != nil
}

// MaxListedFaults bounds the faults that one error names.
const MaxListedFaults = 20

// Faults returns a text that lists all faults of the arguments; "" if there are none. A nil schema
// accepts all arguments.
func (s *Schema) Faults(function string, args map[string]any) string {
	if s == nil {
		return ""
	}
	if len(s.collectFaults(args, maps.Keys(args))) == 0 {
		return "" // most calls, for which the names are not sorted
	}
	return JoinFaults(function, s.collectFaults(args, slices.Values(slices.Sorted(maps.Keys(args)))))
}

// collectFaults returns the faults of the arguments, in the order of names, which are all of them.
func (s *Schema) collectFaults(args map[string]any, names iter.Seq[string]) (faults []string) {
	for _, name := range s.Required {
		if _, ok := args[name]; !ok {
			faults = append(faults, "missing "+name)
		}
	}
	for name := range names {
		p, known := s.Properties[name]
		if !known && s.isClosed() {
			faults = append(faults, "unknown "+name)
		} else if known {
			faults = p.appendFaults(faults, name, args[name])
		}
	}
	return faults
}

// JoinFaults returns the text of an error that lists faults of the arguments of a function; ""
// without any.
func JoinFaults(function string, faults []string) string {
	if len(faults) == 0 {
		return ""
	}
	if n := len(faults); n > MaxListedFaults {
		faults = append(faults[:MaxListedFaults:MaxListedFaults], fmt.Sprintf("and %d more", n-MaxListedFaults))
	}
	return function + ": wrong arguments: " + strings.Join(faults, "; ")
}

// appendFaults appends the faults of v to wrong. path locates v in the arguments.
func (s *Schema) appendFaults(faults []string, path string, v any) []string {
	if s == nil {
		return faults
	}
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(kind string) bool { return isOfType(kind, v) }) {
		return append(faults, fmt.Sprintf("%s is %s, not %s", path, Describe(v), strings.Join(s.Type, " or ")))
	}
	switch v := v.(type) {
	case []any:
		for i := 0; s.Items != nil && i < len(v) && len(faults) <= MaxListedFaults; i++ {
			faults = s.Items.appendFaults(faults, fmt.Sprintf("%s[%d]", path, i), v[i])
		}
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				faults = append(faults, "missing "+path+"."+name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			faults = s.Properties[name].appendFaults(faults, path+"."+name, v[name])
		}
	}
	return faults
}

// isOfType reports whether v has a JSON Schema type. Bytes and times count as strings, as they
// would be in JSON.
func isOfType(kind string, v any) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case int64, uint64:
		return kind == "integer" || kind == "number"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v) && math.Abs(v) <= 1<<53 // R passes all numbers as floats
	case string, []byte, time.Time:
		return kind == "string"
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// Describe names the type of a value for an error.
func Describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, uint64:
		return "an integer"
	case float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		return "a string"
	case []byte:
		return "bytes"
	case time.Time:
		return "a time"
	case []any:
		return "an array"
	}
	return "an object"
}
