package rpcserver

import (
	"encoding/json"
	"fmt"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// The codes of errors. Several errors share a code; Kind distinguishes them.
const (
	CodeParse          = jsonrpc2.CodeParse
	CodeInvalidRequest = jsonrpc2.CodeInvalidRequest
	CodeMethodNotFound = jsonrpc2.CodeMethodNotFound
	CodeInvalidParams  = jsonrpc2.CodeInvalidParams
	CodeFailed         = -32001 // the call could not be carried out
	CodeCancelled      = -32800 // at the request of the caller
)

// The kinds of errors of this package; handlers have their own.
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
)

// maxErrorTextBytes bounds the message of an error on the wire, in bytes.
const maxErrorTextBytes = 1000

// An Error is the error object of an answer.
type Error struct {
	Code    int
	Kind    string         // machine-readable; on the wire it is data.kind
	Message string         // human-readable
	Data    map[string]any // the other fields of data; may be nil
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an Error with a formatted message.
//
// Errors are rare and callers many, so a copy in each would only make programs larger.
//
//go:noinline
func Errorf(code int, kind, format string, args ...any) *Error {
	return &Error{Code: code, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// InvalidParams returns the error for missing or invalid params. The message names the parameter.
//
// Errors are rare and callers many, so a copy in each would only make programs larger.
//
//go:noinline
func InvalidParams(format string, args ...any) *Error {
	return Errorf(CodeInvalidParams, KindInvalidParams, format, args...)
}

// A wireError is an Error as it is encoded.
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
	return json.Marshal(wireError{e.Code, text.ShortenBytes(e.Message, maxErrorTextBytes), data})
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
