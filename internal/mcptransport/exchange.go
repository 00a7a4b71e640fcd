package mcptransport

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

const nameHeader = "Mcp-Name"

// An exchange is an HTTP request and its response, in front of the SDK. The SDK writes its
// messages to the exchange, which drops them once the client has cancelled the call.
type exchange struct {
	http.ResponseWriter
	logger        *slog.Logger  // nil for a message of a batch, which the whole request logs
	sdk           *mcp.Server   // the server for the request
	call          *ToolCall     // the call that this response answers; nil for other requests
	onAnswered    func()        // called by the replay when it sees the answer
	isInReplay    bool          // the replay has opened its stream
	cancelRequest func()        // ends the request; nil for a message of a batch
	done          chan struct{} // closed when the request has ended
	alias         idAlias       // of the request's id

	mu             sync.Mutex  // held over each write
	keepAliveTimer *time.Timer // guarded by mu; runs during a stream; nil before
	finished       bool        // guarded by mu; the request has been served

	// isSingleMessage means that the client accepts no event stream and gets the answer alone.
	isSingleMessage bool

	// isOnlyReader means that the answer can reach the client only through this exchange.
	// Otherwise the replay knows whether the client gets it.
	isOnlyReader bool
}

// exchangeKey is the context key of a request's exchange.
type exchangeKey struct{}

func exchangeFromContext(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// Write implements http.ResponseWriter. The SDK writes each message with one Write.
func (e *exchange) Write(message []byte) (int, error) {
	text := e.alias.restoreID(message)
	if e.call != nil {
		if e.isOnlyReader {
			e.call.deliverIfReady()
		}
		if e.call.IsCancelled() {
			return len(message), nil
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.extendDeadline()
	e.logMessages("line sent", text)
	switch streams := e.isStream(); {
	case streams && e.isSingleMessage:
		return len(message), e.writeAnswer(text)
	case streams:
		e.resetKeepAliveLocked()
	}
	_, err := e.ResponseWriter.Write(bytes.TrimPrefix(text, primeEventName))
	return len(message), err
}

// writeAnswer writes the message of an event if it is an answer. A client that accepts a single
// message gets no others.
func (e *exchange) writeAnswer(event []byte) error {
	message, _ := eventData(event)
	if !isAnswer(message) {
		return nil
	}
	e.Header().Set("Content-Type", jsonType)
	_, err := e.ResponseWriter.Write(message)
	return err
}

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(status int) {
	if e.isStream() && e.isSingleMessage {
		return // writeAnswer sends the status
	}
	e.ResponseWriter.WriteHeader(status)
}

// isStream reports whether the response is an event stream. It sets a header that makes proxies
// such as nginx pass on each event at once.
func (e *exchange) isStream() bool {
	h := e.Header()
	if !strings.HasPrefix(h.Get("Content-Type"), eventStream) {
		return false
	}
	h.Set("X-Accel-Buffering", "no")
	return true
}

// parseAccept records which response types a client accepts. The protocol requires both event
// streams and single messages. Many clients list fewer types than they support, and some support
// no streams.
func (e *exchange) parseAccept(h http.Header) {
	accept := strings.ToLower(strings.Join(h.Values("Accept"), ","))
	e.isSingleMessage = strings.Contains(accept, "application/") && !strings.Contains(accept, eventStream) && !strings.Contains(accept, "*/*") && !strings.Contains(accept, "text/*")
	h.Set("Accept", jsonType+", "+eventStream)
}

// decodeNameHeader decodes the header that repeats the name in the body. A client must encode a
// name that is not plain ASCII or looks encoded, and may encode any. The SDK decodes only the
// headers of arguments. A name that cannot be decoded is not changed, so the SDK refuses it.
func decodeNameHeader(h http.Header) {
	encoded, begins := strings.CutPrefix(h.Get(nameHeader), "=?base64?")
	encoded, ends := strings.CutSuffix(encoded, "?=")
	if name, err := base64.StdEncoding.Strict().DecodeString(encoded); begins && ends && err == nil {
		h.Set(nameHeader, string(name))
	}
}

// eventStream is the media type of an event stream. jsonType is the media type of a single message.
const (
	eventStream = "text/event-stream"
	jsonType    = "application/json"
)

// primeEventName is the line with which the SDK names the first event of a stream, to which a
// client can later return. The protocol gives this event no name, and clients complain about
// names that they do not know.
var primeEventName = []byte("event: prime\n")

// keepAliveInterval is the longest silence of an event stream. Proxies and clients treat a stream
// as broken if it is silent for minutes.
const keepAliveInterval = 15 * time.Second

// startStream starts an event stream with a line that clients ignore.
func (e *exchange) startStream() {
	e.Header().Set("Content-Type", eventStream)
	e.Header().Set("Cache-Control", "no-cache, no-transform")
	_, _ = io.WriteString(e, ": ok\n\n")
	_ = e.FlushError()
}

// startKeepAlive starts the keep-alive timer of a call's stream, even before its first event.
func (e *exchange) startKeepAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resetKeepAliveLocked()
}

// resetKeepAliveLocked starts or restarts the keep-alive timer.
func (e *exchange) resetKeepAliveLocked() {
	switch {
	case e.finished, e.isSingleMessage:
	case e.keepAliveTimer == nil:
		e.keepAliveTimer = time.AfterFunc(keepAliveInterval, e.writeKeepAlive)
	default:
		e.keepAliveTimer.Reset(keepAliveInterval)
	}
}

// writeKeepAlive writes a comment line, which clients ignore.
func (e *exchange) writeKeepAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished || e.call != nil && e.call.IsCancelled() {
		return
	}
	e.extendDeadline()
	e.isStream() // sets the header, since this may be the first write
	if _, err := io.WriteString(e.ResponseWriter, ": keep-alive\n\n"); err != nil {
		return // the client has gone
	}
	_ = http.NewResponseController(e.ResponseWriter).Flush()
	e.resetKeepAliveLocked()
}

// finishResponse ends the response; nothing is written to it afterwards.
func (e *exchange) finishResponse() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished = true; e.keepAliveTimer != nil {
		e.keepAliveTimer.Stop()
	}
	e.extendDeadline() // for the end of the response
	if e.cancelRequest != nil {
		e.cancelRequest()
		close(e.done)
	}
}

// logMessages logs each message of a body or an event at debug level.
func (e *exchange) logMessages(what string, text []byte) {
	if e.logger == nil || !e.logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) == nil {
		for _, message := range batch {
			jsonrpc2.LogLine(e.logger, what, message)
		}
		return
	}
	if message, isEvent := eventData(text); !isEvent || len(message) > 0 {
		jsonrpc2.LogLine(e.logger, what, message)
	}
}

// eventData returns the message of an event, which may be empty. It returns other text unchanged.
func eventData(text []byte) (message []byte, isEvent bool) {
	for line := range bytes.Lines(text) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			return bytes.TrimSpace(data), true
		}
	}
	return text, bytes.HasPrefix(text, []byte("event:")) || bytes.HasPrefix(text, []byte(":"))
}

// FlushError lets http.ResponseController flush the response.
func (e *exchange) FlushError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isStream() && e.isSingleMessage {
		return nil
	}
	e.extendDeadline()
	return http.NewResponseController(e.ResponseWriter).Flush()
}

// Unwrap returns the underlying writer to http.ResponseController.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// extendDeadline bounds the next write, for clients that do not read. It ignores an error,
// because the write itself would fail too.
func (e *exchange) extendDeadline() {
	_ = http.NewResponseController(e.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// writeRefusal answers a request with an error instead of passing it to the SDK.
func (e *exchange) writeRefusal(id json.RawMessage, code int, text string) {
	e.writeMessage(http.StatusBadRequest, errorLine(id, &jsonrpc2.Error{Code: code, Message: text}))
}

// writeMessage writes a single message as the response.
func (e *exchange) writeMessage(status int, message []byte) {
	e.Header().Set("Content-Type", jsonType)
	e.WriteHeader(status)
	_, _ = e.Write(message)
}

// readBody reads the body of a request, within bodyTimeout. If it returns false, it has already
// written the response.
func (e *exchange) readBody(r *http.Request) (body []byte, ok bool) {
	control := http.NewResponseController(e.ResponseWriter)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(e.ResponseWriter, r.Body, maxBodyBytes))
	_ = control.SetReadDeadline(time.Time{}) // a deadline left here would end the request later
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(e, fmt.Sprintf("a message is limited to %d MiB", maxBodyBytes>>20), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(e, "cannot read the request body: "+err.Error(), http.StatusRequestTimeout)
	}
	body = bytes.TrimPrefix(body, byteOrderMark)
	if err == nil {
		e.logMessages("line received", body)
	}
	return body, err == nil
}

// isAnswer reports whether a message is an answer, rather than a notification or a request of the
// server.
func isAnswer(message []byte) bool {
	d := json.NewDecoder(bytes.NewReader(message))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil, name == "method":
			return false
		case name == "result", name == "error": // skip the value, which may be large
			return true
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return false
		}
	}
	return false
}
