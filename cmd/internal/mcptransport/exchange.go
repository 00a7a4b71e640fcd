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
func (x *exchange) Write(message []byte) (int, error) {
	text := x.alias.restoreID(message)
	if x.call != nil {
		if x.isOnlyReader {
			x.call.deliverIfReady()
		}
		if x.call.IsCancelled() {
			return len(message), nil
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.extendDeadline()
	x.logMessages("line sent", text)
	switch streams := x.isStream(); {
	case streams && x.isSingleMessage:
		return len(message), x.writeAnswer(text)
	case streams:
		x.resetKeepAliveLocked()
	}
	_, err := x.ResponseWriter.Write(bytes.TrimPrefix(text, primeEventName))
	return len(message), err
}

// writeAnswer writes the message of an event if it is an answer. A client that accepts a single
// message gets no others.
func (x *exchange) writeAnswer(event []byte) error {
	message, _ := eventData(event)
	if !isAnswer(message) {
		return nil
	}
	x.Header().Set("Content-Type", jsonType)
	_, err := x.ResponseWriter.Write(message)
	return err
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.isStream() && x.isSingleMessage {
		return // writeAnswer sends the status
	}
	x.ResponseWriter.WriteHeader(status)
}

// isStream reports whether the response is an event stream. It sets a header that makes proxies
// such as nginx pass on each event at once.
func (x *exchange) isStream() bool {
	h := x.Header()
	if !strings.HasPrefix(h.Get("Content-Type"), eventStream) {
		return false
	}
	h.Set("X-Accel-Buffering", "no")
	return true
}

// parseAccept records which response types a client accepts. The protocol requires both event
// streams and single messages. Many clients list fewer types than they support, and some support
// no streams.
func (x *exchange) parseAccept(h http.Header) {
	accept := strings.ToLower(strings.Join(h.Values("Accept"), ","))
	x.isSingleMessage = strings.Contains(accept, "application/") && !strings.Contains(accept, eventStream) && !strings.Contains(accept, "*/*") && !strings.Contains(accept, "text/*")
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

// eventStream is the media type of an event stream, and jsonType that of a single message.
const (
	eventStream = "text/event-stream"
	jsonType    = "application/json"
)

// primeEventName is the line with which the SDK names the first event of a stream, to which a
// client can later return. The protocol gives this event no name, and clients complain about
// names that they do not know.
var primeEventName = []byte("event: prime\n")

// keepAliveInterval is the longest silence of an event stream. Proxies and clients treat a stream
// that is silent for minutes as broken.
const keepAliveInterval = 15 * time.Second

// startStream starts an event stream with a line that clients ignore.
func (x *exchange) startStream() {
	x.Header().Set("Content-Type", eventStream)
	x.Header().Set("Cache-Control", "no-cache, no-transform")
	_, _ = io.WriteString(x, ": ok\n\n")
	_ = x.FlushError()
}

// startKeepAlive starts the keep-alive timer of a call's stream, even before its first event.
func (x *exchange) startKeepAlive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resetKeepAliveLocked()
}

// resetKeepAliveLocked starts or restarts the keep-alive timer.
func (x *exchange) resetKeepAliveLocked() {
	switch {
	case x.finished, x.isSingleMessage:
	case x.keepAliveTimer == nil:
		x.keepAliveTimer = time.AfterFunc(keepAliveInterval, x.writeKeepAlive)
	default:
		x.keepAliveTimer.Reset(keepAliveInterval)
	}
}

// writeKeepAlive writes a comment line, which clients ignore.
func (x *exchange) writeKeepAlive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.finished || x.call != nil && x.call.IsCancelled() {
		return
	}
	x.extendDeadline()
	x.isStream() // sets the header, since this may be the first write
	if _, err := io.WriteString(x.ResponseWriter, ": keep-alive\n\n"); err != nil {
		return // the client has gone
	}
	_ = http.NewResponseController(x.ResponseWriter).Flush()
	x.resetKeepAliveLocked()
}

// finishResponse ends the response; nothing is written to it afterwards.
func (x *exchange) finishResponse() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.finished = true; x.keepAliveTimer != nil {
		x.keepAliveTimer.Stop()
	}
	x.extendDeadline() // for the end of the response
	if x.cancelRequest != nil {
		x.cancelRequest()
		close(x.done)
	}
}

// logMessages logs each message of a body or an event at debug level.
func (x *exchange) logMessages(what string, text []byte) {
	if x.logger == nil || !x.logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) == nil {
		for _, message := range batch {
			jsonrpc2.LogLine(x.logger, what, message)
		}
		return
	}
	if message, isEvent := eventData(text); !isEvent || len(message) > 0 {
		jsonrpc2.LogLine(x.logger, what, message)
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
func (x *exchange) FlushError() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isStream() && x.isSingleMessage {
		return nil
	}
	x.extendDeadline()
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Unwrap returns the underlying writer to http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// extendDeadline bounds the next write, for clients that do not read. It ignores an error,
// because the write itself would fail too.
func (x *exchange) extendDeadline() {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// writeRefusal answers a request with an error instead of passing it to the SDK.
func (x *exchange) writeRefusal(id json.RawMessage, code int, text string) {
	x.writeMessage(http.StatusBadRequest, errorLine(id, &jsonrpc2.Error{Code: code, Message: text}))
}

// writeMessage writes a single message as the response.
func (x *exchange) writeMessage(status int, message []byte) {
	x.Header().Set("Content-Type", jsonType)
	x.WriteHeader(status)
	_, _ = x.Write(message)
}

// readBody reads the body of a request, within bodyTimeout. If it returns false, it has already
// written the response.
func (x *exchange) readBody(r *http.Request) (body []byte, ok bool) {
	control := http.NewResponseController(x.ResponseWriter)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(x.ResponseWriter, r.Body, maxBodyBytes))
	_ = control.SetReadDeadline(time.Time{}) // a deadline left here would end the request later
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(x, fmt.Sprintf("a message is limited to %d MiB", maxBodyBytes>>20), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(x, "cannot read the request body: "+err.Error(), http.StatusRequestTimeout)
	}
	body = bytes.TrimPrefix(body, byteOrderMark)
	if err == nil {
		x.logMessages("line received", body)
	}
	return body, err == nil
}
