package mcptransport

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxReplayBytes and maxReplayStreams bound the messages stored for clients that reconnect.
	// The oldest messages are dropped first; a client that asks for them learns that they are
	// gone.
	maxReplayBytes   = 16 << 20
	maxReplayStreams = 256
)

// A replayStore stores the messages of calls whose client may have lost its connection. The
// client fetches them later with Last-Event-ID. The SDK uses the store as its event store, so
// only the store knows whether a client is connected to read an answer.
type replayStore struct {
	mu      sync.Mutex
	streams map[streamKey]*replayStream // guarded by mu
	order   []streamKey                 // guarded by mu; streams that have or expect messages, oldest first
	bytes   int                         // guarded by mu
}

type streamKey struct{ session, stream string }

// A replayStream stores the server's messages for one request of a client.
type replayStream struct {
	call       *ToolCall // nil when the request is not a call
	alias      idAlias   // of the request's id
	onAnswered func()    // called once call is answered

	readerContext context.Context // of the last request to read the messages
	exchange      *exchange       // the same request
	messages      [][]byte        // a nil message is never resent
	bytes         int
	complete      bool // the answer has been written
	dropped       bool // the messages are no longer stored
}

var _ mcp.EventStore = (*replayStore)(nil)

func newReplayStore() *replayStore { return &replayStore{streams: make(map[streamKey]*replayStream)} }

// Open implements mcp.EventStore. ctx is the context of the request.
func (r *replayStore) Open(ctx context.Context, session, name string) error {
	x := exchangeFromContext(ctx)
	if name == "" || x == nil { // the stream "" would hold messages outside of requests; there are none
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := streamKey{session, name}
	r.streams[key] = &replayStream{call: x.call, alias: x.alias, onAnswered: x.onAnswered, readerContext: ctx, exchange: x}
	r.order = append(r.order, key)
	x.isInReplay = true
	return nil
}

// Append implements mcp.EventStore. The SDK calls it for each message, just before it writes
// the message to a connected client.
func (r *replayStore) Append(_ context.Context, session, name string, message []byte) error {
	key := streamKey{session, name}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streams[key]
	if s == nil {
		return nil
	}
	if isAnswer(message) {
		s.complete = true
		if s.call != nil {
			s.onAnswered()
			s.call.Deliver(s.readerContext.Err() == nil)
		}
	}
	if s.call != nil && s.call.IsCancelled() {
		message = nil
	}
	if !s.dropped {
		s.messages = append(s.messages, message)
		s.bytes += len(message)
		r.bytes += len(message)
	}
	r.trimLocked()
	if s.dropped && s.complete {
		delete(r.streams, key)
	}
	return nil
}

// trimLocked drops the oldest messages beyond the bounds.
func (r *replayStore) trimLocked() {
	for len(r.order) > maxReplayStreams || r.bytes > maxReplayBytes {
		key := r.order[0]
		r.order = r.order[1:]
		s := r.streams[key]
		r.bytes -= s.bytes
		s.messages, s.bytes, s.dropped = nil, 0, true
		if s.complete {
			delete(r.streams, key)
		}
	}
}

// After implements mcp.EventStore. ctx is the context of the request of a client that has
// reconnected.
func (r *replayStore) After(ctx context.Context, session, name string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if name == "" {
			return
		}
		messages, err := r.resumeStream(ctx, streamKey{session, name}, index+1)
		if err != nil {
			yield(nil, err)
			return
		}
		if x := exchangeFromContext(ctx); x != nil {
			x.startStream() // the SDK would wait for the first message, which may take long
		}
		for _, m := range messages {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// readerExchange returns the last request to read a stream, or nil.
func (r *replayStore) readerExchange(key streamKey) *exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.streams[key]; s != nil {
		return s.exchange
	}
	return nil
}

// resumeStream returns the messages of a stream from an index on. Later messages go to the
// request of ctx.
func (r *replayStore) resumeStream(ctx context.Context, key streamKey, from int) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streams[key]
	if s == nil || s.dropped || from > len(s.messages) {
		return nil, mcp.ErrEventsPurged
	}
	s.readerContext = ctx
	if x := exchangeFromContext(ctx); x != nil {
		s.exchange = x
		x.call, x.alias = s.call, s.alias
	}
	if s.call != nil && s.complete && from < len(s.messages) { // the last message is the answer
		s.call.deliverLate()
	}
	return slices.Clone(s.messages[from:]), nil
}

// SessionClosed implements mcp.EventStore.
func (r *replayStore) SessionClosed(_ context.Context, session string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = slices.DeleteFunc(r.order, func(key streamKey) bool {
		if key.session != session {
			return false
		}
		r.bytes -= r.streams[key].bytes
		return true
	})
	maps.DeleteFunc(r.streams, func(key streamKey, _ *replayStream) bool { return key.session == session })
	return nil
}
