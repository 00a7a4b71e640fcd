package mcptransport

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

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/internal/text"
)

const (
	versionHeader = "MCP-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"

	lastEventHeader = "Last-Event-ID"

	// codeNoSession is the code with which the TypeScript SDK reports an unknown session. With
	// any other body, Claude Code takes the status for a wrong address and starts no new session.
	// The id is null, as in that SDK: the Go SDK takes an error with an id for the answer to the
	// call.
	codeNoSession = -32001

	// maxQuotedBytes bounds a client's text in an error message.
	maxQuotedBytes = 100
)

// An httpFront receives the HTTP requests in front of the SDK. It finds the protocol era and the
// client of each request. It also tracks the calls, so a cancel takes effect when it arrives.
type httpFront struct {
	newTools    func(ServedClient) Tools
	idleTimeout time.Duration
	logger      *slog.Logger

	sessionHandler   http.Handler // the SDK's handler for protocol versions with MCP sessions
	statelessHandler http.Handler // the SDK's handler for stateless versions

	replay *replayStore // of sessionHandler

	sharedTools Tools // for all calls without an MCP session
	sharedSDK   *mcp.Server

	arrivals Queue // the queue of calls without an MCP session

	endingClients sync.WaitGroup // counts the clients that are being ended

	mu          sync.Mutex
	lastCall    int64                  // guarded by mu; the number of the last call
	calls       map[int64]*ToolCall    // guarded by mu; open calls by number
	clientCount int                    // guarded by mu; all clients so far
	clients     map[string]*httpClient // guarded by mu; by the ids of their MCP sessions
	spareClient *httpClient            // guarded by mu; the last client with a session opened ahead, or nil
	closed      bool                   // guarded by mu
}

func newHTTPFront(idle time.Duration, logger *slog.Logger, newTools func(ServedClient) Tools) *httpFront {
	f := &httpFront{
		newTools:    newTools,
		idleTimeout: idle,
		logger:      logger,
		replay:      newReplayStore(),
		calls:       make(map[int64]*ToolCall),
		clients:     make(map[string]*httpClient),
	}
	f.sharedTools = newTools(ServedClient{Calls: f, Shared: true, IdleTimeout: idle})
	f.sharedSDK = f.sharedTools.NewSDKServer(nil)

	serving := func(r *http.Request) *mcp.Server { return exchangeFromContext(r.Context()).sdk }
	// The guard has checked the host, and readBody the size.
	f.sessionHandler = mcp.NewStreamableHTTPHandler(serving, &mcp.StreamableHTTPOptions{
		Logger:                     logger,
		EventStore:                 f.replay,
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        -1,
	})
	f.statelessHandler = mcp.NewStreamableHTTPHandler(serving, &mcp.StreamableHTTPOptions{
		Logger:                       logger,
		Stateless:                    true,
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true,
		MaxRequestBodyBytes:          -1,
	})
	return f
}

// ServeHTTP implements http.Handler.
func (f *httpFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, leave := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	x := &exchange{ResponseWriter: w, logger: f.logger, sdk: f.sharedSDK, cancelRequest: leave, done: make(chan struct{})}
	defer x.finishResponse()
	r.Header.Del(callNumberHeader)
	var body []byte
	if r.Method == http.MethodPost {
		var ok bool
		if body, ok = x.readBody(r); !ok {
			return
		}
	}
	m, body, problem := x.decodeMessage(body)
	if r.Method == http.MethodPost && problem != nil && len(splitBatch(body, r.Header.Get(versionHeader))) == 0 {
		x.writeRefusal(problem.ID, problem.Code, problem.Text)
		return
	}
	if m.Method == methodInitialize && requestVersion(m.Params) == "" { // initialize asks for its own version and session
		r.Header.Del(versionHeader)
		r.Header.Del(sessionHeader)
	}
	if r.Header.Get(lastEventHeader) == "" {
		r.Header.Del(lastEventHeader) // an empty one names no event
	}
	if r.Method == http.MethodPost {
		x.parseAccept(r.Header)
		decodeNameHeader(r.Header)
	}
	version := r.Header.Get(versionHeader)
	odd := version != "" && (!isVersion(version) || version > StatelessVersion)
	wrong := paramTypeError(m)
	switch {
	case m.ID != nil && wrong != "":
		x.writeRefusal(m.ID, jsonrpc2.CodeInvalidParams, wrong)
	case odd && requestVersion(m.Params) == "":
		x.writeRefusal(m.ID, jsonrpc2.CodeInvalidRequest, fmt.Sprintf("the header %s has the unsupported protocol version %q; the newest is %s", versionHeader, text.Truncate(version, maxQuotedBytes), StatelessVersion))
	case m.Method != "" && m.ID == nil && !isKnownMethod(m.Method):
		x.WriteHeader(http.StatusAccepted)
	case odd || version >= StatelessVersion, r.Header.Get(sessionHeader) == "" && requestVersion(m.Params) >= StatelessVersion:
		f.serveStateless(x, r, m, body)
	default:
		f.serveInSession(x, r, m, body)
	}
}

// isVersion reports whether s has the form of a protocol version, which is a date.
func isVersion(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// requestVersion returns the version that a request names itself, as requests from
// StatelessVersion on do, or "". The SDK compares it with the header, and answers with the
// supported versions.
func requestVersion(params json.RawMessage) string {
	var p struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p) // on an error, the version stays empty
	return p.Meta.Version
}

// passToSDK passes a message to a handler of the SDK.
func (e *exchange) passToSDK(to http.Handler, r *http.Request, body []byte) {
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	r.Body = io.NopCloser(bytes.NewReader(body))
	to.ServeHTTP(e, r)
}

// serveStateless serves a request without an MCP session. The call ends with the request.
func (f *httpFront) serveStateless(x *exchange, r *http.Request, m *jsonrpc2.Message, body []byte) {
	x.isOnlyReader = true
	x.call = &ToolCall{token: jsonrpc2.ProgressToken(m.Params), onSeen: x.startKeepAlive}
	if m.Method == methodCallTool {
		x.call.Arrival = f.arrivals.Join()
	}
	number, err := f.numberCall(x.call)
	if err != nil {
		x.call.Deliver(false)
		http.Error(x, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer f.forgetCall(number)
	gone := context.AfterFunc(r.Context(), x.call.Cancel)
	r.Header.Set(callNumberHeader, strconv.FormatInt(number, 10))
	x.passToSDK(f.statelessHandler, r, body)
	gone()
	x.call.Deliver(false) // has no effect after an answer
}

// serveInSession serves a request of a client that has an MCP session or starts one.
func (f *httpFront) serveInSession(x *exchange, r *http.Request, m *jsonrpc2.Message, body []byte) {
	id := r.Header.Get(sessionHeader)
	begins := id == "" && m.Method == methodInitialize
	var c *httpClient
	var err error
	switch {
	case begins:
		c, err = f.newClient()
	case id != "":
		c = f.findClient(id)
	case m.IsRequest():
		x.writeRefusal(m.ID, jsonrpc2.CodeInvalidRequest, "no MCP session: send initialize first, then its "+sessionHeader+" with each request")
		return
	default:
		x.passToSDK(f.sessionHandler, r, body) // the SDK refuses or ignores it
		return
	}
	switch {
	case err != nil:
		http.Error(x, err.Error(), http.StatusServiceUnavailable)
		return
	case c == nil:
		x.writeMessage(http.StatusNotFound, errorLine(nil, &jsonrpc2.Error{Code: codeNoSession, Message: "Session not found: it has ended or never existed; initialize a new one"}))
		return
	}
	defer c.releaseRequest()
	if m.IsRequest() && !isKnownMethod(m.Method) {
		x.writeMessage(http.StatusOK, errorLine(m.ID, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", text.Truncate(m.Method, maxQuotedBytes))}))
		return
	}
	several := splitBatch(body, r.Header.Get(versionHeader))
	switch {
	case r.Method == http.MethodDelete:
		c.tools.Close()
		f.endClient(c)
		x.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		f.takeOverStream(x, r, c)
		f.serveOne(x, r, c, m, body)
	case len(several) > maxOpenCalls:
		http.Error(x, fmt.Sprintf("a batch may have %d messages", maxOpenCalls), http.StatusBadRequest)
	case len(several) > 0:
		f.serveBatch(x, r, c, several)
	default:
		f.serveOne(x, r, c, m, body)
	}
	if begins {
		c.finishInitialize()
	}
}

// takeOverStream ends the request that reads the stream this request asks for, and waits until it
// has ended. A client that lost a connection often reconnects before the server or a proxy
// notices the loss.
func (f *httpFront) takeOverStream(x *exchange, r *http.Request, c *httpClient) {
	name, _, resumes := strings.Cut(r.Header.Get(lastEventHeader), "_")
	var before *exchange
	if resumes {
		before = f.replay.readerExchange(streamKey{c.id, name})
	} else {
		f.mu.Lock()
		before, c.eventReader = c.eventReader, x
		f.mu.Unlock()
	}
	if before == nil || before.cancelRequest == nil {
		return
	}
	before.cancelRequest()
	select {
	case <-before.done:
	case <-r.Context().Done():
	}
}

// serveBatch serves the messages of a batch concurrently.
func (f *httpFront) serveBatch(x *exchange, r *http.Request, c *httpClient, several []json.RawMessage) {
	x.isSingleMessage = false // a batch has several answers
	stream := &sharedStream{w: x}
	defer stream.finishStream()
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, body := range several {
		p := &partWriter{stream: stream, header: make(http.Header)}
		x, one := &exchange{ResponseWriter: p}, r.Clone(r.Context())
		m, body, problem := x.decodeMessage(body)
		if problem != nil {
			stream.writeAnswer(errorLine(problem.ID, &jsonrpc2.Error{Code: problem.Code, Message: problem.Text}))
			continue
		}
		p.id = x.alias.originalID(m.ID)
		if !f.registerMessage(x, one, c, m) {
			p.finishPart()
			continue
		}
		serving.Go(func() {
			defer p.finishPart()
			defer x.finishResponse()
			f.serveRegistered(x, one, body)
		})
	}
}

// serveOne serves a single message, or a client's request for messages that it missed.
func (f *httpFront) serveOne(x *exchange, r *http.Request, c *httpClient, m *jsonrpc2.Message, body []byte) {
	if f.registerMessage(x, r, c, m) {
		f.serveRegistered(x, r, body)
	}
}

// registerMessage records a message and its call in the order of arrival. If it returns false, it
// has already written the response.
func (f *httpFront) registerMessage(x *exchange, r *http.Request, c *httpClient, m *jsonrpc2.Message) bool {
	x.sdk = c.sdk
	if m.Method == jsonrpc2.MethodCancelled && m.ID == nil {
		c.cancelCall(m.Params)
	}
	if m.Method == methodCallTool && m.ID != nil {
		number, err := c.registerCall(x, m)
		switch {
		case errors.Is(err, errIDInUse):
			http.Error(x, err.Error(), http.StatusBadRequest)
			return false
		case err != nil:
			http.Error(x, err.Error(), http.StatusServiceUnavailable)
			return false
		}
		r.Header.Set(callNumberHeader, strconv.FormatInt(number, 10))
	}
	return true
}

// serveRegistered hands a message to the SDK.
func (f *httpFront) serveRegistered(x *exchange, r *http.Request, body []byte) {
	x.passToSDK(f.sessionHandler, r, body)
	if x.onAnswered != nil && !x.isInReplay { // the SDK has refused the call
		x.onAnswered()
		x.call.Deliver(false)
	}
}

// numberCall assigns the next number to a call.
func (f *httpFront) numberCall(c *ToolCall) (number int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.numberCallLocked(c)
}

func (f *httpFront) numberCallLocked(c *ToolCall) (number int64, err error) {
	if f.closed {
		return 0, errShuttingDown
	}
	f.lastCall++
	f.calls[f.lastCall] = c
	return f.lastCall, nil
}

// forgetCall removes an answered call.
func (f *httpFront) forgetCall(number int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.calls, number)
}

// FindCall implements CallFinder.
func (f *httpFront) FindCall(ctx context.Context, req *mcp.CallToolRequest) (c *ToolCall, ok bool) {
	number, _ := strconv.ParseInt(req.Extra.Header.Get(callNumberHeader), 10, 64)
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
	if c.onSeen != nil {
		c.onSeen()
	}
	return c, !c.IsCancelled()
}

// closeTools closes the tools of all clients concurrently, and waits.
func (f *httpFront) closeTools() {
	f.mu.Lock()
	f.closed = true
	open := slices.Collect(maps.Values(f.clients))
	f.mu.Unlock()
	var closing sync.WaitGroup
	closing.Go(f.sharedTools.Close)
	for _, c := range open {
		closing.Go(c.tools.Close)
	}
	closing.Wait()
}

// endClients ends every MCP session, and waits until ctx ends at most.
func (f *httpFront) endClients(ctx context.Context) {
	f.mu.Lock()
	for _, c := range f.clients {
		f.endClientLocked(c)
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		f.endingClients.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
