package mcptransport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// lastBatchVersion is the last version of the protocol that allows several messages in one request.
const lastBatchVersion = "2025-03-26"

// splitBatch returns the messages of a batch. It returns nil for a single message, and for a
// version that does not allow batches.
func splitBatch(body []byte, version string) []json.RawMessage {
	var all []json.RawMessage
	if version > lastBatchVersion || !bytes.HasPrefix(bytes.TrimSpace(body), []byte{'['}) || json.Unmarshal(body, &all) != nil {
		return nil
	}
	return all
}

// A sharedStream is the response to a batch, an event stream that its messages share. The server
// handles each message as if it had come alone, and writes its events to the stream.
type sharedStream struct {
	w http.ResponseWriter

	mu            sync.Mutex
	headerWritten bool // guarded by mu
}

// writeEvent writes one event.
func (s *sharedStream) writeEvent(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.headerWritten {
		s.headerWritten = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache, no-transform")
	}
	return s.w.Write(text)
}

// writeAnswer writes an answer that does not come from the SDK.
func (s *sharedStream) writeAnswer(message []byte) {
	_, _ = s.writeEvent(fmt.Appendf(nil, "event: message\ndata: %s\n\n", message)) // the client may have gone
}

// finishStream writes the response if no message had an answer.
func (s *sharedStream) finishStream() {
	if !s.headerWritten {
		s.w.WriteHeader(http.StatusAccepted)
	}
}

// A partWriter is the response to one message of a batch.
type partWriter struct {
	stream      *sharedStream
	id          json.RawMessage // of the message; nil without one
	header      http.Header
	errorStatus int // the HTTP status, if it is an error; otherwise 0
	message     strings.Builder
}

// Header implements http.ResponseWriter. The headers are never sent.
func (p *partWriter) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *partWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		p.errorStatus = status
	}
}

// Write implements http.ResponseWriter.
func (p *partWriter) Write(text []byte) (int, error) {
	if p.errorStatus != 0 {
		return p.message.Write(text)
	}
	return p.stream.writeEvent(text)
}

// FlushError lets http.ResponseController flush the response.
func (p *partWriter) FlushError() error {
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	return http.NewResponseController(p.stream.w).Flush()
}

// Unwrap returns the underlying writer to http.ResponseController.
func (p *partWriter) Unwrap() http.ResponseWriter { return p.stream.w }

// finishPart turns an HTTP error status into a JSON-RPC error.
func (p *partWriter) finishPart() {
	if p.errorStatus == 0 || p.id == nil {
		return
	}
	text := strings.TrimSpace(p.message.String())
	answer := errorLine(p.id, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: text})
	p.stream.writeAnswer(answer)
}
