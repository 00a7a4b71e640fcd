package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/text"
)

const (
	// defaultTimeout bounds how long a call waits for its turn. Every known client waits longer
	// for an answer.
	defaultTimeout = 45 * time.Second
	maxTimeout     = clientprofile.LongestCall
)

// The argument types of the tools, with the JSON names of their schemas.
type (
	replArgs struct {
		Input     *string  `json:"input"`
		Keys      string   `json:"keys"`
		TimeoutMS *float64 `json:"timeout_ms"`
		EOF       bool     `json:"eof"`
		Session   string   `json:"session"`
		Lang      string   `json:"lang"`
	}

	outputArgs struct {
		Session string   `json:"session"`
		WaitMS  *float64 `json:"wait_ms"`
		After   *uint64  `json:"after"` // for programs: event numbers are only in _meta
		Until   string   `json:"until"`
		Grep    string   `json:"grep"`
		Lines   string   `json:"lines"`
		Screen  bool     `json:"screen"`
	}

	sessionArgs struct {
		Session string `json:"session"`
	}

	resetArgs struct {
		Session string `json:"session"`
		Close   bool   `json:"close"`
	}
)

// clientArguments are arguments that clients add to every tool, and usually remove again.
// wait_for_previous comes from the Gemini CLI. It needs no handling, because the calls of a
// client start in order anyway.
var clientArguments = []string{"wait_for_previous"}

// timeoutNames are the two argument names for a timeout. A tool that has one of them accepts the
// other as well.
var timeoutNames = [...]string{"timeout_ms", "wait_ms"}

// decodeArguments decodes the arguments of a tool. Its errors tell a model how to correct them.
// Unknown arguments are only recorded: clients and models add some, and the call can run without
// them.
func decodeArguments[T any](r *toolRequest, arguments json.RawMessage) (args T, err error) {
	if len(arguments) == 0 {
		return args, nil
	}
	var encoded string // by clients that encode the arguments twice
	if arguments[0] == '"' && json.Unmarshal(arguments, &encoded) == nil {
		switch encoded = strings.TrimSpace(encoded); {
		case encoded == "", encoded == "null": // some models write this for no arguments
			return args, nil
		case encoded[0] == '{':
			arguments = json.RawMessage(encoded)
		}
	}
	if invalid := jsonrpc2.InvalidCharacter(arguments); invalid != "" {
		return args, fmt.Errorf("the arguments contain %s and cannot be passed on: send the whole character in UTF-8, or have the code create it", invalid)
	}
	err = json.Unmarshal(arguments, &args)
	r.unknownNames = unknownArguments[T](arguments)
	if err != nil || len(r.unknownNames) > 0 {
		if meant, ok := coerceArguments[T](arguments); ok {
			args = *new(T)
			err = json.Unmarshal(meant, &args)
			r.unknownNames = unknownArguments[T](meant)
		}
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return args, nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return args, fmt.Errorf("%s must be %s, not %s", wrong.Field, kindName(wrong.Type), withArticle(wrong.Value))
	case errors.As(err, &wrong):
		return args, fmt.Errorf("the arguments must be an object, not %s", withArticle(wrong.Value))
	default:
		return args, fmt.Errorf("cannot decode the arguments: %w", err)
	}
}

// coerceArguments corrects arguments that can only mean one thing: a timeout under the other
// name, and a value of another type. ok is false if nothing changes.
func coerceArguments[T any](arguments json.RawMessage) (meant json.RawMessage, ok bool) {
	var values map[string]json.RawMessage
	if json.Unmarshal(arguments, &values) != nil {
		return nil, false
	}
	nameOf := func(want string) (name string, found bool) {
		for name := range values {
			if strings.EqualFold(name, want) {
				return name, true
			}
		}
		return "", false
	}
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		own := t.Field(i).Tag.Get("json")
		name, found := nameOf(own)
		if at := slices.Index(timeoutNames[:], own); !found && at >= 0 {
			if name, found = nameOf(timeoutNames[1-at]); found {
				values[own] = values[name]
				delete(values, name)
				name, ok = own, true
			}
		}
		if value, changed := coerceValue(values[name], t.Field(i).Type); found && changed {
			values[name], ok = value, true
		}
	}
	if !ok {
		return nil, false
	}
	meant, err := json.Marshal(values)
	return meant, err == nil
}

// coerceValue converts a value to the type of its argument if it can only mean one thing.
// Programs that read values from a command line send 42 for the string "42"; models send "5000"
// for a number.
func coerceValue(value json.RawMessage, to reflect.Type) (json.RawMessage, bool) {
	if to.Kind() == reflect.Pointer {
		to = to.Elem()
	}
	if len(value) == 0 {
		return nil, false
	}
	if to.Kind() == reflect.String {
		switch value[0] {
		case '"', '{', '[', 'n': // already a string, or nothing that has one
			return nil, false
		}
		text, err := json.Marshal(string(value))
		return text, err == nil
	}
	var text string
	if value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return nil, false
	}
	text = strings.ToLower(strings.TrimSpace(text))
	return json.RawMessage(text), json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789tf")
}

// unknownArguments returns the names of arguments that the tool does not have, except
// clientArguments.
func unknownArguments[T any](arguments json.RawMessage) (names []string) {
	var values map[string]json.RawMessage
	_ = json.Unmarshal(arguments, &values) // decodeArguments has reported the error
	known := append(argumentNames[T](), clientArguments...)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			names = append(names, name)
		}
	}
	return names
}

// unknownArgumentError returns an error if the call has unknown arguments. It serves calls that
// lack an argument, perhaps because it has another name.
func unknownArgumentError[T any](r *toolRequest) error {
	if len(r.unknownNames) == 0 {
		return nil
	}
	return fmt.Errorf("unknown argument %q: this tool takes %s", r.unknownNames[0], text.JoinNames(argumentNames[T](), "and", "no arguments"))
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Uint64:
		return "a whole number from 0"
	default:
		return "a number"
	}
}

// withArticle adds an article to encoding/json's name of a value.
func withArticle(value string) string {
	if strings.HasPrefix(value, "number ") { // the number follows
		return value
	}
	switch value {
	case "bool":
		return "true or false"
	case "object", "array":
		return "an " + value
	default:
		return "a " + value
	}
}

// argumentNames returns the names of a tool's arguments.
func argumentNames[T any]() []string {
	t := reflect.TypeFor[T]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("json")
	}
	return names
}

// parseTimeout parses an optional timeout in milliseconds. It rejects values out of range.
func parseTimeout(name string, ms *float64) (time.Duration, error) {
	if ms == nil {
		return defaultTimeout, nil
	}
	if most := float64(maxTimeout / time.Millisecond); math.IsNaN(*ms) || *ms < 0 || *ms > most {
		return 0, fmt.Errorf("%s must be from 0 to %.0f, not %s", name, most, strconv.FormatFloat(*ms, 'f', -1, 64))
	}
	return time.Duration(*ms * float64(time.Millisecond)), nil
}

// parseLinePosition parses "LINE:CHARACTER", both counted from 1.
func parseLinePosition(s string) (line, character int, ok bool) {
	a, b, ok := strings.Cut(strings.TrimSpace(s), ":")
	line, lineErr := strconv.Atoi(a)
	character, characterErr := strconv.Atoi(b)
	return line, character, ok && lineErr == nil && characterErr == nil && line > 0 && character > 0
}

// parseLineRange parses "FROM-TO", "FROM-", "LINE" or "-COUNT", for lines numbered from 1 to
// total.
func parseLineRange(s string, total int) (from, to int, err error) {
	bad := fmt.Errorf(`lines must be like "120-180", "120-", "120" or "-50" for the last 50, not %q`, s)
	a, b, isRange := strings.Cut(strings.TrimSpace(s), "-")
	number := func(s string, otherwise int) int {
		if s == "" {
			return otherwise
		}
		n := 0
		for _, c := range []byte(s) {
			if c < '0' || c > '9' || n > 1e9 {
				err = bad
				return 0
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	switch {
	case !isRange && a != "":
		from = number(a, 0)
		to = from
	case a != "":
		from, to = number(a, 0), number(b, total)
	case b != "":
		from, to = max(1, total-number(b, 0)+1), total
	default:
		err = bad
	}
	switch {
	case err != nil:
	case from < 1:
		err = bad
	case from > to && b != "":
		err = fmt.Errorf("lines %q: the first line is after the last", s)
	}
	return from, to, err
}
