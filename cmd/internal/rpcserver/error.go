package rpcserver

import (
	"encoding/json"
	"fmt"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// The codes of errors. Several things have one code: Kind tells them apart.
const (
	CodeParse          = jsonrpc2.CodeParse
	CodeInvalidRequest = jsonrpc2.CodeInvalidRequest
	CodeMethodNotFound = jsonrpc2.CodeMethodNotFound
	CodeInvalidParams  = jsonrpc2.CodeInvalidParams
	CodeFailed         = -32001 // the call could not be carried out
	CodeCancelled      = -32800 // on the caller's own request
)

// The kinds of errors that this package makes; handlers have their own.
const (
	KindParse          = "parse"
	KindInvalidRequest = "invalid_request"
	KindTooLarge       = "too_large"
	KindUnknownMethod  = "unknown_method"
	KindInvalidParams  = "invalid_params"
	KindInternal       = "internal"
	KindOverloaded     = "overloaded"
	KindCancelled      = "cancelled"
	KindShuttingDown   = "shutting_down"
	KindUnreachable    = "unreachable"
	maxErrorTextBytes  = 1000
)

// An Error is the error object of an answer.
type Error struct {
	Code    int
	Kind    string         // machine-readable; on the wire it is data.kind
	Message string         // for a person
	Data    map[string]any // what else is in data; may be nil
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(code int, kind, format string, args ...any) *Error {
	return &Error{Code: code, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// InvalidParams returns the error of a call whose params name is missing or wrong.
func InvalidParams(format string, args ...any) *Error {
	return Errorf(CodeInvalidParams, KindInvalidParams, format, args...)
}

type wireError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

// MarshalJSON implements json.Marshaler.
func (e *Error) MarshalJSON() ([]byte, error) {
	data := map[string]any{"kind": e.Kind}
	for k, v := range e.Data {
		data[k] = v
	}
	return json.Marshal(wireError{e.Code, clipText(e.Message, maxErrorTextBytes), data})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Error) UnmarshalJSON(b []byte) error {
	var w wireError
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Error{Code: w.Code, Message: w.Message, Data: w.Data}
	e.Kind, _ = w.Data["kind"].(string)
	delete(e.Data, "kind")
	return nil
}

// clipText cuts s to at most n bytes, between characters.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
