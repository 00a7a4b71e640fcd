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

// An exchange is one HTTP request and its response, in front of the NewSDKServer. The NewSDKServer writes its
// messages to the exchange. Once the client has cancelled, the exchange passes none of them
// on.
type exchange struct {
	http.ResponseWriter
	logger        *slog.Logger  // nil for a part of a request: the whole logs it
	sdk           *mcp.Server   // the server for the request
	call          *Call         // the call whose messages are written here; nil for other requests
	onAnswered    func()        // the replay calls it when it sees the answer of call
	isInReplay    bool          // the replay knows of it
	cancelRequest func()        // ends the request; nil for a part of one
	done          chan struct{} // closed when the request has ended
	alias         idAlias       // of the id of the request whose messages are written here

	mu             sync.Mutex  // held over each write
	keepAliveTimer *time.Timer // guarded by mu; runs while the response is a stream; nil before
	finished       bool        // guarded by mu; the request is served

	// isSingleMessage says that the client takes no stream of events: it gets the answer alone.
	isSingleMessage bool

	// isOnlyReader says that the answer can reach the client only through this exchange. Otherwise
	// the replay knows whether the client gets it.
	isOnlyReader bool
}

// exchangeKey is the context key of a request's exchange.
type exchangeKey struct{}

func exchangeFromContext(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// Write implements http.ResponseWriter. The NewSDKServer writes each message with one Write.
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

// writeAnswer writes the message of an event if it is an answer. Others are not for a client that
// takes one message.
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
		return // it comes with the answer
	}
	x.ResponseWriter.WriteHeader(status)
}

// isStream reports whether the response is a stream of events. If so, its header tells proxies, nginx
// for one, to pass on each event at once.
func (x *exchange) isStream() bool {
	h := x.Header()
	if !strings.HasPrefix(h.Get("Content-Type"), eventStream) {
		return false
	}
	h.Set("X-Accel-Buffering", "no")
	return true
}

// parseAccept notes what a client takes. The protocol wants it to take streams of events and single
// messages, but many say less than they take, and some take no streams.
func (x *exchange) parseAccept(h http.Header) {
	accept := strings.ToLower(strings.Join(h.Values("Accept"), ","))
	x.isSingleMessage = strings.Contains(accept, "application/") && !strings.Contains(accept, eventStream) && !strings.Contains(accept, "*/*") && !strings.Contains(accept, "text/*")
	h.Set("Accept", jsonType+", "+eventStream)
}

// decodeNameHeader decodes the name that the header repeats from the body. A client encodes one that is not
// plain ASCII, or looks encoded, and may encode any. The NewSDKServer decodes only headers of arguments.
// One that cannot be decoded stays as it is, so the NewSDKServer refuses it.
func decodeNameHeader(h http.Header) {
	encoded, begins := strings.CutPrefix(h.Get(nameHeader), "=?base64?")
	encoded, ends := strings.CutSuffix(encoded, "?=")
	if name, err := base64.StdEncoding.Strict().DecodeString(encoded); begins && ends && err == nil {
		h.Set(nameHeader, string(name))
	}
}

// eventStream is the type of a response that is a stream of events, and jsonType that of one message.
const (
	eventStream = "text/event-stream"
	jsonType    = "application/json"
)

// primeEventName is how the NewSDKServer names the event that a stream begins with, so that a client can come back
// to it. The protocol gives it no name, and clients complain of one that they do not know.
var primeEventName = []byte("event: prime\n")

// keepAliveInterval is the longest silence of a stream of events. Proxies and clients take one that is
// silent for minutes for broken.
const keepAliveInterval = 15 * time.Second

// startStream begins the response as a stream of events, with a line that clients ignore.
func (x *exchange) startStream() {
	x.Header().Set("Content-Type", eventStream)
	x.Header().Set("Cache-Control", "no-cache, no-transform")
	_, _ = io.WriteString(x, ": ok\n\n")
	_ = x.FlushError()
}

// startKeepAlive keeps the stream of a call alive from now on, before its first event.
func (x *exchange) startKeepAlive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resetKeepAliveLocked()
}

// resetKeepAliveLocked starts the time of silence, or starts it anew.
func (x *exchange) resetKeepAliveLocked() {
	switch {
	case x.finished, x.isSingleMessage:
	case x.keepAliveTimer == nil:
		x.keepAliveTimer = time.AfterFunc(keepAliveInterval, x.writeKeepAlive)
	default:
		x.keepAliveTimer.Reset(keepAliveInterval)
	}
}

// writeKeepAlive writes a line that clients ignore.
func (x *exchange) writeKeepAlive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.finished || x.call != nil && x.call.IsCancelled() {
		return
	}
	x.extendDeadline()
	x.isStream() // the comment may be the first of it
	if _, err := io.WriteString(x.ResponseWriter, ": keep-alive\n\n"); err != nil {
		return // nobody is there
	}
	_ = http.NewResponseController(x.ResponseWriter).Flush()
	x.resetKeepAliveLocked()
}

// finishResponse ends the response: nothing is written any more.
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

// logMessages logs each message of a body or of an event at debug.
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

// eventData returns the message of an event, which may be empty, or the text if it is none.
func eventData(text []byte) (message []byte, isEvent bool) {
	for line := range bytes.Lines(text) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			return bytes.TrimSpace(data), true
		}
	}
	return text, bytes.HasPrefix(text, []byte("event:")) || bytes.HasPrefix(text, []byte(":"))
}

// FlushError implements what http.ResponseController looks for.
func (x *exchange) FlushError() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isStream() && x.isSingleMessage {
		return nil
	}
	x.extendDeadline()
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Unwrap implements what http.ResponseController looks for.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// extendDeadline bounds the next write to a client that may not read. It ignores an error,
// since the write would fail, too.
func (x *exchange) extendDeadline() {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// writeRefusal answers a request that is not for the NewSDKServer.
func (x *exchange) writeRefusal(id json.RawMessage, code int, text string) {
	x.writeMessage(http.StatusBadRequest, errorLine(id, &jsonrpc2.Error{Code: code, Message: text}))
}

// writeMessage writes one message.
func (x *exchange) writeMessage(status int, message []byte) {
	x.Header().Set("Content-Type", jsonType)
	x.WriteHeader(status)
	_, _ = x.Write(message)
}

// readBody reads the body of a request, in bounded time. If it returns false, it has already
// written the response.
func (x *exchange) readBody(r *http.Request) (body []byte, ok bool) {
	control := http.NewResponseController(x.ResponseWriter)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(x.ResponseWriter, r.Body, maxBodyBytes))
	_ = control.SetReadDeadline(time.Time{}) // otherwise the deadline would end the request later
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(x, fmt.Sprintf("a message may have %d MiB", maxBodyBytes>>20), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(x, "the body did not come: "+err.Error(), http.StatusRequestTimeout)
	}
	body = bytes.TrimPrefix(body, byteOrderMark)
	if err == nil {
		x.logMessages("line received", body)
	}
	return body, err == nil
}
