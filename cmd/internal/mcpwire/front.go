package mcpwire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/jsonline"
)

const (
	versionHeader = "MCP-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	nameHeader    = "Mcp-Name"

	lastEventHeader = "Last-Event-ID"

	// codeNoSession is the code with which the TypeScript SDK says that it does not know a session. With
	// another body, Claude Code takes the status for that of a wrong address, and begins no new
	// session. The id is null, as there: the Go SDK takes an error with an id for the answer to the call.
	codeNoSession = -32001

	// maxClients bounds the MCP sessions. For one more, the client that has been away for
	// longest ends.
	maxClients = 32

	// maxCalls bounds the open calls of one MCP session.
	maxCalls = 64
)

// A front is the HTTP side of the transport, in front of the SDK. It finds the protocol era
// and the client of each request. It knows the calls, so a cancel counts from its arrival.
type front struct {
	newTools func(Client) Tools
	idle     time.Duration
	logger   *slog.Logger

	inSessions http.Handler // the SDK's handler, for the eras with MCP sessions
	stateless  http.Handler // the SDK's handler, for the era without

	replay *replay // of inSessions

	shared    Tools // for all calls without an MCP session
	sharedSDK *mcp.Server

	arrivals Queue // the queue of calls without an MCP session

	ending sync.WaitGroup // counts the clients that are being ended

	mu      sync.Mutex
	last    int64              // guarded by mu; the number of the last call
	calls   map[int64]*Call    // guarded by mu; open calls by number
	made    int                // guarded by mu; how many clients there have been
	clients map[string]*client // guarded by mu; by the ids of their MCP sessions
	spare   *client            // guarded by mu; the last client whose session was opened ahead; nil without one
	closed  bool               // guarded by mu
}

func newFront(idle time.Duration, logger *slog.Logger, newTools func(Client) Tools) *front {
	f := &front{
		newTools: newTools,
		idle:     idle,
		logger:   logger,
		replay:   newReplay(),
		calls:    make(map[int64]*Call),
		clients:  make(map[string]*client),
	}
	f.shared = newTools(Client{Calls: f, Shared: true, Idle: idle})
	f.sharedSDK = f.shared.SDK(nil)

	serving := func(r *http.Request) *mcp.Server { return exchangeOf(r.Context()).sdk }
	// The gate has checked the host, and receive has checked the size.
	f.inSessions = mcp.NewStreamableHTTPHandler(serving, &mcp.StreamableHTTPOptions{
		Logger:                     logger,
		EventStore:                 f.replay,
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        -1,
	})
	f.stateless = mcp.NewStreamableHTTPHandler(serving, &mcp.StreamableHTTPOptions{
		Logger:                       logger,
		Stateless:                    true,
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true,
		MaxRequestBodyBytes:          -1,
	})
	return f
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, leave := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	x := &exchange{ResponseWriter: w, logger: f.logger, sdk: f.sharedSDK, leave: leave, left: make(chan struct{})}
	defer x.end()
	r.Header.Del(callHeader)
	var body []byte
	if r.Method == http.MethodPost {
		var ok bool
		if body, ok = x.receive(r); !ok {
			return
		}
	}
	m, body, problem := x.takeMessage(body)
	if r.Method == http.MethodPost && problem != nil && len(parts(body, r.Header.Get(versionHeader))) == 0 {
		x.refuse(problem.ID, problem.Code, problem.Text)
		return
	}
	if m.Method == methodInitialize && versionSaid(m.Params) == "" { // it asks for a version, and a session, itself
		r.Header.Del(versionHeader)
		r.Header.Del(sessionHeader)
	}
	if r.Header.Get(lastEventHeader) == "" {
		r.Header.Del(lastEventHeader) // an empty one names no event
	}
	if r.Method == http.MethodPost {
		x.takeAccept(r.Header)
		takeName(r.Header)
	}
	version := r.Header.Get(versionHeader)
	odd := version != "" && (!isVersion(version) || version > StatelessVersion)
	wrong := wrongParams(m)
	switch {
	case m.ID != nil && wrong != "":
		x.refuse(m.ID, jsonline.CodeInvalidParams, wrong)
	case odd && versionSaid(m.Params) == "":
		x.refuse(m.ID, jsonline.CodeInvalidRequest, fmt.Sprintf("the header %s has %q, which is no version of the protocol that is spoken here: the newest is %s", versionHeader, firstBytes(version), StatelessVersion))
	case m.Method != "" && m.ID == nil && !isKnown(m.Method):
		x.WriteHeader(http.StatusAccepted)
	case odd || version >= StatelessVersion, r.Header.Get(sessionHeader) == "" && versionSaid(m.Params) >= StatelessVersion:
		f.serveStateless(x, r, m, body)
	default:
		f.serveInSession(x, r, m, body)
	}
}

// isVersion reports whether a text has the form of the protocol's versions.
func isVersion(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// versionSaid returns the version that a request names itself, as those of StatelessVersion do; "" if it names
// none. The SDK compares it with the header, and answers with the versions that there are.
func versionSaid(params json.RawMessage) string {
	var p struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p) // an error leaves what there was
	return p.Meta.Version
}

// firstBytes returns a text that a client chose for a message, bounded.
func firstBytes(s string) string { return strings.ToValidUTF8(s[:min(len(s), 100)], "") }

// handOver passes a message to a handler of the SDK.
func (x *exchange) handOver(to http.Handler, r *http.Request, body []byte) {
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	r.Body = io.NopCloser(bytes.NewReader(body))
	to.ServeHTTP(x, r)
}

// read returns the message of a body. For a body that holds none it returns one without anything, and
// why. The SDK gets none of these: it would read some in another way than the front, which has the
// calls in order.
func read(body []byte) (*jsonline.Message, *jsonline.Problem) {
	m, err := jsonline.Decode(body)
	if problem, ok := errors.AsType[*jsonline.Problem](err); ok {
		return &jsonline.Message{}, problem
	}
	return m, nil
}

// serveStateless serves a request without a session. When the request ends, so does the call.
func (f *front) serveStateless(x *exchange, r *http.Request, m *jsonline.Message, body []byte) {
	x.alone = true
	x.call = &Call{token: jsonline.ProgressToken(m.Params), seen: x.stayAlive}
	if m.Method == methodCallTool {
		x.call.Arrival = f.arrivals.Join()
	}
	number, err := f.begin(x.call)
	if err != nil {
		x.call.Deliver(false)
		http.Error(x, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer f.finish(number)
	gone := context.AfterFunc(r.Context(), x.call.Cancel)
	r.Header.Set(callHeader, strconv.FormatInt(number, 10))
	x.handOver(f.stateless, r, body)
	gone()
	x.call.Deliver(false) // has no effect after an answer
}

// serveInSession serves a request of a client that has an MCP session, or wants one.
func (f *front) serveInSession(x *exchange, r *http.Request, m *jsonline.Message, body []byte) {
	id := r.Header.Get(sessionHeader)
	begins := id == "" && m.Method == methodInitialize
	var c *client
	var err error
	switch {
	case begins:
		c, err = f.admit()
	case id != "":
		c = f.find(id)
	case m.IsRequest():
		x.refuse(m.ID, jsonline.CodeInvalidRequest, "there is no MCP session: initialize one, and send its "+sessionHeader+" with each request")
		return
	default:
		x.handOver(f.inSessions, r, body) // without a session, the SDK can do little for it
		return
	}
	switch {
	case err != nil:
		http.Error(x, err.Error(), http.StatusServiceUnavailable)
		return
	case c == nil:
		x.answer(http.StatusNotFound, failure(nil, &jsonline.Error{Code: codeNoSession, Message: "Session not found: it has ended, or was never there; initialize a new one"}))
		return
	}
	defer c.release()
	if m.IsRequest() && !isKnown(m.Method) {
		x.answer(http.StatusOK, failure(m.ID, &jsonline.Error{Code: jsonline.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", firstBytes(m.Method))}))
		return
	}
	several := parts(body, r.Header.Get(versionHeader))
	switch {
	case r.Method == http.MethodDelete:
		c.tools.Close()
		f.end(c)
		x.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		f.takeStream(x, r, c)
		f.serveOne(x, r, c, m, body)
	case len(several) > maxCalls:
		http.Error(x, fmt.Sprintf("a batch may have %d messages", maxCalls), http.StatusBadRequest)
	case len(several) > 0:
		f.serveParts(x, r, c, several)
	default:
		f.serveOne(x, r, c, m, body)
	}
	if begins {
		c.initialized()
	}
}

// takeStream ends the request that reads the stream which this one wants, and waits for that. A client
// that has lost a connection comes back before this end, or a proxy on the way, knows of the loss.
func (f *front) takeStream(x *exchange, r *http.Request, c *client) {
	name, _, resumes := strings.Cut(r.Header.Get(lastEventHeader), "_")
	var before *exchange
	if resumes {
		before = f.replay.readerOf(streamKey{c.id, name})
	} else {
		f.mu.Lock()
		before, c.listener = c.listener, x
		f.mu.Unlock()
	}
	if before == nil || before.leave == nil {
		return
	}
	before.leave()
	select {
	case <-before.left:
	case <-r.Context().Done():
	}
}

// serveParts serves all messages of one request at the same time.
func (f *front) serveParts(x *exchange, r *http.Request, c *client, several []json.RawMessage) {
	x.single = false // a batch has several answers
	stream := &sharedStream{w: x}
	defer stream.end()
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, body := range several {
		p := &partWriter{stream: stream, header: make(http.Header)}
		x, one := &exchange{ResponseWriter: p}, r.Clone(r.Context())
		m, body, problem := x.takeMessage(body)
		if problem != nil {
			stream.answer(failure(problem.ID, &jsonline.Error{Code: problem.Code, Message: problem.Text}))
			continue
		}
		p.id = x.alias.original(m.ID)
		if !f.register(x, one, c, m) {
			p.end()
			continue
		}
		serving.Go(func() {
			defer p.end()
			defer x.end()
			f.serveRegistered(x, one, body)
		})
	}
}

// serveOne serves one message of a client, or its request for messages that it missed.
func (f *front) serveOne(x *exchange, r *http.Request, c *client, m *jsonline.Message, body []byte) {
	if f.register(x, r, c, m) {
		f.serveRegistered(x, r, body)
	}
}

// register notes a message and its call, in the order of arrival. If it returns false, it has
// already written the response.
func (f *front) register(x *exchange, r *http.Request, c *client, m *jsonline.Message) bool {
	x.sdk = c.sdk
	if m.Method == jsonline.MethodCancelled && m.ID == nil {
		c.cancel(m.Params)
	}
	if m.Method == methodCallTool && m.ID != nil {
		number, err := c.begin(x, m)
		switch {
		case errors.Is(err, errTaken):
			http.Error(x, err.Error(), http.StatusBadRequest)
			return false
		case err != nil:
			http.Error(x, err.Error(), http.StatusServiceUnavailable)
			return false
		}
		r.Header.Set(callHeader, strconv.FormatInt(number, 10))
	}
	return true
}

// serveRegistered hands a message to the SDK.
func (f *front) serveRegistered(x *exchange, r *http.Request, body []byte) {
	x.handOver(f.inSessions, r, body)
	if x.answered != nil && !x.opened { // the SDK has refused the call
		x.answered()
		x.call.Deliver(false)
	}
}

// begin numbers a call.
func (f *front) begin(c *Call) (number int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.beginLocked(c)
}

func (f *front) beginLocked(c *Call) (number int64, err error) {
	if f.closed {
		return 0, errEnding
	}
	f.last++
	f.calls[f.last] = c
	return f.last, nil
}

// finish forgets an answered call.
func (f *front) finish(number int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.calls, number)
}

// Call implements Calls.
func (f *front) Call(ctx context.Context, req *mcp.CallToolRequest) (c *Call, ok bool) {
	number, _ := strconv.ParseInt(req.Extra.Header.Get(callHeader), 10, 64)
	f.mu.Lock()
	c = f.calls[number]
	f.mu.Unlock()
	if c == nil {
		return nil, false
	}
	c.notify = func(p progressParams) {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: p.Token, Progress: p.Progress, Message: p.Message,
		})
	}
	if c.seen != nil {
		c.seen()
	}
	return c, !c.IsCancelled()
}

// closeTools closes the tools of all clients at the same time, and waits.
func (f *front) closeTools() {
	f.mu.Lock()
	f.closed = true
	open := slices.Collect(maps.Values(f.clients))
	f.mu.Unlock()
	var closing sync.WaitGroup
	closing.Go(f.shared.Close)
	for _, c := range open {
		closing.Go(c.tools.Close)
	}
	closing.Wait()
}

// endClients ends every MCP session, until ctx ends.
func (f *front) endClients(ctx context.Context) {
	f.mu.Lock()
	for _, c := range f.clients {
		f.endLocked(c)
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		f.ending.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
