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

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

const (
	// defaultTimeout bounds how long a call waits for its turn. Every known client waits
	// longer for a call.
	defaultTimeout = 45 * time.Second
	maxTimeout     = 600 * time.Second
)

// The arguments of the tools. The JSON names are the schema's.
type (
	replArgs struct {
		Input     *string  `json:"input"`
		TimeoutMS *float64 `json:"timeout_ms"`
		EOF       bool     `json:"eof"`
		Session   string   `json:"session"`
		Lang      string   `json:"lang"`
	}

	outputArgs struct {
		Session string   `json:"session"`
		WaitMS  *float64 `json:"wait_ms"`
		After   *uint64  `json:"after"` // for programs: the numbers are in _meta only
		Until   string   `json:"until"`
		Grep    string   `json:"grep"`
		Lines   string   `json:"lines"`
	}

	sessionArgs struct {
		Session string `json:"session"`
	}

	resetArgs struct {
		Session string `json:"session"`
		Close   bool   `json:"close"`
	}
)

// clientArguments are arguments that hosts add to every tool, and usually do not pass on.
// wait_for_previous is from the Gemini CLI. It needs no handling: calls of one client begin
// in the order in which they come.
var clientArguments = []string{"wait_for_previous"}

// timeoutNames are the names of the time to wait, which are one idea: each tool that has one of them
// takes the other, too.
var timeoutNames = [...]string{"timeout_ms", "wait_ms"}

// decodeArguments reads the arguments of a tool. Its errors tell a model how to correct them. Unknown
// arguments are only noted: hosts and models add some, and the call can run without them.
func decodeArguments[T any](r *toolRequest, arguments json.RawMessage) (args T, err error) {
	if len(arguments) == 0 {
		return args, nil
	}
	var encoded string // by hosts that encode the arguments twice
	if arguments[0] == '"' && json.Unmarshal(arguments, &encoded) == nil {
		switch encoded = strings.TrimSpace(encoded); {
		case encoded == "", encoded == "null": // as models write that there are none
			return args, nil
		case encoded[0] == '{':
			arguments = json.RawMessage(encoded)
		}
	}
	if spoiled := jsonrpc2.InvalidCharacter(arguments); spoiled != "" {
		return args, fmt.Errorf("the arguments have %s and cannot be passed on: send the whole character in UTF-8, or have the code make it", spoiled)
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
		return args, fmt.Errorf("the arguments cannot be read: %w", err)
	}
}

// coerceArguments returns arguments as they can only be meant: the time to wait under the tool's own name,
// and values of the types that the tool has. ok is false if nothing changes.
func coerceArguments[T any](arguments json.RawMessage) (meant json.RawMessage, ok bool) {
	var given map[string]json.RawMessage
	if json.Unmarshal(arguments, &given) != nil {
		return nil, false
	}
	nameOf := func(want string) (name string, found bool) {
		for name := range given {
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
				given[own] = given[name]
				delete(given, name)
				name, ok = own, true
			}
		}
		if value, changed := coerceValue(given[name], t.Field(i).Type); found && changed {
			given[name], ok = value, true
		}
	}
	if !ok {
		return nil, false
	}
	meant, err := json.Marshal(given)
	return meant, err == nil
}

// coerceValue returns a value of a type that stands for one of another: programs that read values from
// a command line send 42 for the text "42", and models send "5000" for a number.
func coerceValue(value json.RawMessage, to reflect.Type) (json.RawMessage, bool) {
	if to.Kind() == reflect.Pointer {
		to = to.Elem()
	}
	if len(value) == 0 {
		return nil, false
	}
	if to.Kind() == reflect.String {
		switch value[0] {
		case '"', '{', '[', 'n': // as it should be, or nothing that a text stands for
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

// unknownArguments returns the arguments that the tool does not have, except those of hosts.
func unknownArguments[T any](arguments json.RawMessage) (names []string) {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(arguments, &given) // decode has reported an error already
	known := append(argumentNames[T](), clientArguments...)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			names = append(names, name)
		}
	}
	return names
}

// unknownArgumentError returns the error of a call that lacks something which it seems to give under
// another name.
func unknownArgumentError[T any](r *toolRequest) error {
	if len(r.unknownNames) == 0 {
		return nil
	}
	return fmt.Errorf("unknown argument %q: this tool takes %s", r.unknownNames[0], joinNames(argumentNames[T](), "and", "no arguments"))
}

// maxIgnoredNames bounds the names of unknown arguments that were reported already.
const maxIgnoredNames = 64

// reportIgnored adds to a result, once for each name, which arguments were not used.
func (s *server) reportIgnored(r *toolRequest, result *mcp.CallToolResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range r.unknownNames {
		if result.IsError || len(s.reportedNames) == maxIgnoredNames || s.reportedNames[name] {
			continue
		}
		if s.reportedNames == nil {
			s.reportedNames = make(map[string]bool)
		}
		s.reportedNames[name] = true
		c := content{blocks: result.Content}
		c.addLine(fmt.Sprintf("[unknown argument %q was ignored]", name))
		result.Content = c.blocks
	}
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

// withArticle puts encoding/json's name of a value into a sentence.
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

// argumentNames returns the arguments of a tool.
func argumentNames[T any]() []string {
	t := reflect.TypeFor[T]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("json")
	}
	return names
}

// joinNames joins names as a sentence does.
func joinNames(names []string, and, none string) string {
	switch n := len(names); n {
	case 0:
		return none
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " " + and + " " + names[n-1]
	}
}

// parseTimeout returns an optional time to wait, within bounds.
func parseTimeout(name string, ms *float64) (time.Duration, error) {
	if ms == nil {
		return defaultTimeout, nil
	}
	if most := float64(maxTimeout / time.Millisecond); math.IsNaN(*ms) || *ms < 0 || *ms > most {
		return 0, fmt.Errorf("%s must be from 0 to %.0f, not %s", name, most, strconv.FormatFloat(*ms, 'f', -1, 64))
	}
	return time.Duration(*ms * float64(time.Millisecond)), nil
}

// parseLinePosition reads "LINE:CHARACTER", both from 1.
func parseLinePosition(s string) (line, character int, ok bool) {
	a, b, ok := strings.Cut(strings.TrimSpace(s), ":")
	line, lineErr := strconv.Atoi(a)
	character, characterErr := strconv.Atoi(b)
	return line, character, ok && lineErr == nil && characterErr == nil && line > 0 && character > 0
}

// parseLineRange reads "FROM-TO", "FROM-", "LINE" or "-COUNT" for lines that are
// numbered 1 to total.
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
		err = fmt.Errorf("lines %q: the first is after the last", s)
	}
	return from, to, err
}
