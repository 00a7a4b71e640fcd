package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/argschema"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// A Function is a function of a program that code in a session can call. [FunctionOf] makes one from
// a Go function. The program gives it with supervisor.Session.SetFunctions, or, if the session is
// one of a daemon, with client.Session.SetFunctions.
type Function struct {
	// Name is the name that code calls: at most 128 letters, digits and underscores. In a Group it
	// may contain other characters, too; the language then derives an identifier from it.
	Name string

	// Group is the namespace of the function. The function search of the group github is
	// turnstone.tools.github.search in Python, and github.search everywhere else. "" is the
	// namespace of all functions without a group.
	Group string

	// Doc describes the function in the help of the language.
	Doc string

	// Params is a JSON Schema of type object. Its properties are the parameters, in order, and
	// required lists the mandatory ones. Arguments are checked against these names and types before
	// Call. nil accepts any named arguments.
	Params json.RawMessage

	// Returns is a JSON Schema of the result, for the help of the language; it may be nil.
	Returns json.RawMessage

	// Call runs in a new goroutine, and possibly many times concurrently. Its arguments are nil,
	// bool, int64, uint64 (if too large for int64), float64, string, []byte, time.Time, []any and
	// map[string]any. Its result may be anything that encoding/json accepts; bytes, times, integers
	// and NaN keep their types. An error or a panic is raised as an error in the calling code; a
	// [*CallError] chooses its name.
	//
	// ctx ends when the code is interrupted, and when the worker ends. Nothing waits for a Call
	// that continues after that. supervisor.CallerOf and client.CallerOf identify the caller.
	Call func(ctx context.Context, args map[string]any) (any, error)
}

// A CallError is an error that the calling code sees as an exception or condition of this name. All
// other errors have the name "CallError".
type CallError struct {
	Name, Message string
}

func (e *CallError) Error() string { return e.Message }

// MaxFunctionName bounds the name of a function, in bytes.
const MaxFunctionName = 128 // not in the regexp, because as a repetition count it would cost each monitor 100 kB

var functionNamePattern = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// FullName returns the name under which the function is called, granted and recorded.
func (f Function) FullName() string {
	if f.Group == "" {
		return f.Name
	}
	return f.Group + "." + f.Name
}

// Check returns why no session can have the function; nil if one can.
func (f Function) Check() error {
	if err := f.checkNames(); err != nil {
		return err
	}
	if f.Call == nil {
		return errors.New("it has no Call")
	}
	if f.Params != nil {
		if _, err := argschema.Parse(f.Params); err != nil {
			return fmt.Errorf("schema of its params: %w", err)
		}
	}
	if f.Returns != nil && !json.Valid(f.Returns) {
		return errors.New("schema of its returns: it is not JSON")
	}
	return nil
}

// checkNames rejects names that code could not use or that could imitate other names.
func (f Function) checkNames() error {
	name := f.Name
	if f.Group != "" {
		name = f.Group
		if len(f.Name) == 0 || len(f.Name) > MaxFunctionName || !utf8.ValidString(f.Name) || strings.ContainsFunc(f.Name, func(c rune) bool { return !unicode.IsGraphic(c) }) {
			return errors.New("its name must be at most 128 bytes of visible text")
		}
	}
	if len(name) > MaxFunctionName || !functionNamePattern().MatchString(name) {
		return errors.New("its name must be at most 128 letters, digits and underscores, and not begin with a digit")
	}
	return nil
}
