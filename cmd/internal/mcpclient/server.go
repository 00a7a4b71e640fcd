package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/supervisor"
)

const (
	startTimeout     = 2 * time.Minute  // of a server, including its list of tools; npx and uvx may have to download it
	maxStartDelay    = 30 * time.Second // between failed starts
	maxTools         = 1000             // of one server
	maxPages         = 100              // of the list of tools
	maxToolBytes     = 256 << 10        // of a tool's description and schemas
	maxAllToolsBytes = 1 << 20          // of all descriptions and schemas of a server
	closeTimeout     = 2 * time.Second  // for ending the MCP session of a remote server
)

// A toolServer is an MCP server of a ServerSet, with its connection and its tools.
type toolServer struct {
	ServerConfig
	set *ServerSet

	mu             sync.Mutex
	current        *connection
	starting       *serverStart // while a start is under way
	tools          []*mcp.Tool
	toolsKnown     bool // tools is set, perhaps from an earlier connection
	failedStarts   int  // consecutive failed starts
	lastStartError error
	retryAt        time.Time // the earliest time of the next start
	isRefreshing   bool      // the tools are being listed again
	toolsChanged   bool      // the tools have changed since the listing started
	callCount      int       // calls so far
	openCalls      map[string]*openCall
	omitted        []string // tools that code cannot call, and why
}

// An openCall is a tool call that has no result yet.
type openCall struct {
	supervisor.Caller
	ctx    context.Context // ends with the call
	number int             // in the order of the calls
}

// A serverStart is an attempt to start a server, shared by all calls that wait for it.
type serverStart struct {
	done chan struct{}
	conn *connection
	err  error
}

// A connection is the MCP session with a running server, and its process.
type connection struct {
	session *mcp.ClientSession
	program *supervisor.RunningProgram // nil for a remote server
	stdio   *stdioTransport            // nil for a remote server
	ended   chan struct{}              // closed after the end of the connection
}

// ensureConnected returns the connection. It starts the server if necessary.
func (s *toolServer) ensureConnected(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	if c := s.current; c != nil && !c.isEnded() {
		s.mu.Unlock()
		return c, nil
	}
	if s.starting == nil {
		if pause := time.Until(s.retryAt); pause > 0 {
			s.mu.Unlock()
			return nil, s.startError(fmt.Errorf("%w (next attempt in %.0f s)", s.lastStartError, pause.Seconds()+1))
		}
		s.starting = &serverStart{done: make(chan struct{})}
		go s.runStart(s.starting) // ends within startTimeout
	}
	under := s.starting
	s.mu.Unlock()
	select {
	case <-under.done:
		if under.err != nil {
			return nil, s.startError(under.err)
		}
		return under.conn, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startError returns the error for code that uses a server that failed to start.
func (s *toolServer) startError(err error) error {
	return &supervisor.CallError{Name: "ConnectionError", Message: fmt.Sprintf("the server %s did not start: %v", s.Name, err)}
}

func (c *connection) isEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// runStart connects to the server and lists its tools.
func (s *toolServer) runStart(under *serverStart) {
	s.set.starts.Add(1)
	defer s.set.starts.Done()
	ctx, stop := context.WithCancel(s.set.ctx)
	timer := time.AfterFunc(s.set.timeouts.start, stop)
	c, err := s.connectWithRetry(ctx)
	var tools []*mcp.Tool
	if err == nil {
		tools, err = listTools(ctx, c.session)
	}
	if err != nil {
		if ctx.Err() != nil && s.set.ctx.Err() == nil {
			err = fmt.Errorf("no answer within %s", s.set.timeouts.start)
		}
		err = c.explainError(err)
		c.close()
	}
	timer.Stop()
	s.mu.Lock()
	s.starting = nil
	if under.err = err; err == nil {
		under.conn, s.current, s.failedStarts = c, c, 0
		s.setTools(tools)
		go s.watchConnection(c, stop) // ends with the connection
	} else {
		stop()
		pause := min(time.Second<<min(s.failedStarts, 6), maxStartDelay)
		s.failedStarts++
		s.lastStartError, s.retryAt = err, time.Now().Add(pause)
	}
	s.mu.Unlock()
	close(under.done)
}

// watchConnection waits for the end of a connection and closes the rest of it.
func (s *toolServer) watchConnection(c *connection, stop func()) {
	defer stop()
	_ = c.session.Wait()
	close(c.ended)
	if c.program != nil {
		c.program.WaitStderr() // errors quote it, and close would cut it off
	}
	c.close()
}

// connectWithRetry starts a server process or connects to a remote server. A process that answers
// server/discover too late has chosen the newer handshake. So it is started once more, with the
// full start timeout for that answer.
func (s *toolServer) connectWithRetry(ctx context.Context) (*connection, error) {
	c, err := s.connectOnce(ctx, s.set.timeouts.discover)
	if err != nil && ctx.Err() == nil && c.stdio != nil && c.stdio.hasAnsweredLate() {
		c.close()
		c, err = s.connectOnce(ctx, s.set.timeouts.start)
	}
	return c, err
}

// connectOnce connects once, and waits for the answer to server/discover for at most patience.
func (s *toolServer) connectOnce(ctx context.Context, patience time.Duration) (*connection, error) {
	c := &connection{ended: make(chan struct{})}
	var transport mcp.Transport
	if s.URL != "" {
		transport = s.newHTTPTransport()
	} else {
		program, err := supervisor.StartProgram(&supervisor.Program{Path: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, Logger: s.set.options.Logger})
		if err != nil {
			return c, err
		}
		c.program, c.stdio = program, newStdioTransport(program, timeouts{discover: patience, write: s.set.timeouts.write})
		c.stdio.progress = s.forwardProgress
		transport = c.stdio
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "turnstone", Version: s.set.options.Version}, s.clientOptions())
	var err error
	c.session, err = client.Connect(ctx, transport, nil)
	return c, err
}

// clientOptions are the requests that a server may send. Sampling is not offered: code that needs
// a model can call one itself.
func (s *toolServer) clientOptions() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Logger: s.set.options.Logger,
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler: s.handleElicitation,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.refreshTools()
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			s.forwardProgress(r.Params)
		},
	}
}

// newHTTPTransport returns the transport for a remote server.
func (s *toolServer) newHTTPTransport() mcp.Transport {
	client := &http.Client{Transport: &headerTransport{headers: s.Headers, address: s.URL, next: http.DefaultTransport}}
	if s.SSE {
		return &mcp.SSEClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessageBytes}
	}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessageBytes}
}

// headerTransport adds the configured headers to requests for the configured address, and to no
// others.
type headerTransport struct {
	headers map[string]string
	address string
	next    http.RoundTripper
}

func (t *headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if to, err := url.Parse(t.address); err == nil && to.Scheme == r.URL.Scheme && to.Host == r.URL.Host {
		r = r.Clone(r.Context())
		for name, value := range t.headers {
			r.Header.Set(name, value)
		}
	}
	response, err := t.next.RoundTrip(r)
	if err == nil && r.Header.Get("Mcp-Session-Id") != "" && isSessionUnknown(response) {
		markSessionUnknown(r, response)
	}
	return response, err
}

// isSessionUnknown reports whether a response says that the server does not know our session. The
// protocol uses status 404 for that. The TypeScript reference server and its descendants send
// 400, with a text about the session.
func isSessionUnknown(response *http.Response) bool {
	const maxTextBytes = 4 << 10
	switch response.StatusCode {
	case http.StatusNotFound:
		return true
	case http.StatusBadRequest:
		words, err := io.ReadAll(io.LimitReader(response.Body, maxTextBytes))
		rest := response.Body
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(words), rest), rest}
		return err == nil && bytes.Contains(bytes.ToLower(words), []byte("session"))
	}
	return false
}

// markSessionUnknown reduces a response to a bare 404, for a server that has ended our session or
// was restarted. Most servers send an error in the body. The SDK would treat that error as the
// answer to the call, and keep the session. The server has not executed the call.
func markSessionUnknown(r *http.Request, response *http.Response) {
	_ = response.Body.Close()
	response.StatusCode, response.Body, response.ContentLength = http.StatusNotFound, http.NoBody, 0
	if refused, ok := r.Context().Value(sessionUnknownKey{}).(*atomic.Bool); ok {
		refused.Store(true)
	}
}

// sessionUnknownKey is the context key of the flag that markSessionUnknown sets for a call.
type sessionUnknownKey struct{}

// listTools returns at most maxTools tools of a server.
func listTools(ctx context.Context, session *mcp.ClientSession) (all []*mcp.Tool, err error) {
	cursor := ""
	for range maxPages {
		page, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, fmt.Errorf("cannot list its tools: %w", err)
		}
		all = append(all, page.Tools...)
		if cursor = page.NextCursor; cursor == "" || len(all) >= maxTools {
			break
		}
	}
	return all[:min(len(all), maxTools)], nil
}

// refreshTools lists the tools again after a change, and updates the sessions.
func (s *toolServer) refreshTools() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toolsChanged = true
	if s.isRefreshing || s.current == nil {
		return // a refresh is under way, or the next start will list them
	}
	s.isRefreshing = true
	go func() {
		for s.refreshOnce() {
		}
		s.set.refreshSessions()
	}()
}

// refreshOnce lists the tools, and reports whether they have changed again in the meantime.
func (s *toolServer) refreshOnce() (again bool) {
	s.mu.Lock()
	c := s.current
	s.toolsChanged = false
	s.mu.Unlock()
	ctx, stop := context.WithTimeout(s.set.ctx, startTimeout)
	defer stop()
	tools, err := listTools(ctx, c.session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.setTools(tools)
	}
	s.isRefreshing = s.toolsChanged && err == nil
	return s.isRefreshing
}

func (s *toolServer) callTool(ctx context.Context, caller supervisor.Caller, tool string, args map[string]any) (any, error) {
	text, err := json.Marshal(args) // never null
	if err != nil {
		return nil, &supervisor.CallError{Name: "TypeError", Message: fmt.Sprintf("%s: the arguments cannot be sent as JSON: %v", caller.Function, err)}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // withdraws the server's requests for user input
	token := s.registerCall(ctx, caller)
	defer s.unregisterCall(token)
	params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(text)}
	params.SetProgressToken(token)
	c, result, err := s.sendCall(ctx, params)
	switch {
	case err == nil:
		return resultValue(result)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case c == nil:
		return nil, err
	}
	if rpcError, ok := errors.AsType[*jsonrpc.Error](err); ok && !errors.Is(err, mcp.ErrConnectionClosed) {
		switch {
		case rpcError.Code == mcp.CodeURLElicitationRequired:
			return nil, s.askToVisit(ctx, caller, rpcError)
		case rpcError.Message == notSentText:
			return nil, &supervisor.CallError{Name: "ConnectionError", Message: fmt.Sprintf(
				"cannot reach the server %s for %s: %s", s.Name, tool, strings.ReplaceAll(err.Error(), notSentText+": ", ""))}
		}
		return nil, &supervisor.CallError{Name: "ToolError", Message: rpcError.Message}
	}
	if wrong := unusableResult(err); wrong != "" {
		return nil, &supervisor.CallError{Name: "ToolError", Message: fmt.Sprintf("the server %s ran %s, but its result is unusable: %s", s.Name, tool, wrong)}
	}
	return nil, &supervisor.CallError{Name: "ConnectionError", Message: fmt.Sprintf(
		"the connection to the server %s ended during %s, which may have run: %v", s.Name, tool, c.explainError(err))}
}

// sendCall sends a call, and sends it again if the server no longer knows our session. It returns
// a nil connection if the server cannot be reached.
func (s *toolServer) sendCall(ctx context.Context, params *mcp.CallToolParams) (c *connection, result *mcp.CallToolResult, err error) {
	for again := false; ; again = true {
		if c, err = s.ensureConnected(ctx); err != nil {
			return nil, nil, err
		}
		refused := new(atomic.Bool)
		result, err = c.session.CallTool(context.WithValue(ctx, sessionUnknownKey{}, refused), params)
		if err == nil || again || !refused.Load() {
			return c, result, err
		}
		select {
		case <-c.ended: // ensureConnected then makes a new connection
		case <-ctx.Done():
			return c, nil, err
		}
	}
}

// notSentText is the text of the SDK's error for a message that could not be sent to a remote
// server, while the connection remains usable.
const notSentText = "rejected by transport"

// registerCall records an open call, for its progress and its requests for user input.
func (s *toolServer) registerCall(ctx context.Context, caller supervisor.Caller) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callCount++
	token = fmt.Sprintf("%s-%d", s.Group, s.callCount)
	s.openCalls[token] = &openCall{caller, ctx, s.callCount}
	return token
}

func (s *toolServer) unregisterCall(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.openCalls, token)
}

// forwardProgress reports the progress of a call as progress of its turn.
func (s *toolServer) forwardProgress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	one, ok := s.openCalls[token]
	s.mu.Unlock()
	if ok {
		one.ReportProgress(p.Progress, p.Total, p.Message)
	}
}

// explainError adds the last output of a server process, and the first junk on its standard
// output, to an error.
func (c *connection) explainError(err error) error {
	if c.program == nil {
		return err
	}
	if errors.Is(err, mcp.ErrConnectionClosed) || strings.HasSuffix(err.Error(), "EOF") {
		c.program.WaitStderr()
	}
	words := []string{err.Error()}
	if c.stdio.hasStoppedReading() {
		words = append(words, "it stopped reading its input")
	}
	if summary := c.program.StderrSummary(); summary != "" {
		words = append(words, summary)
	}
	if junk := c.stdio.FirstJunk(); junk != "" {
		words = append(words, fmt.Sprintf("it wrote to its standard output: %q", junk))
	}
	return errors.New(strings.Join(words, ": "))
}

// close ends a connection, and the server's process tree.
func (c *connection) close() {
	if c.program != nil {
		_ = c.program.Close()
	}
	if c.session == nil {
		return
	}
	closed := make(chan struct{})
	go func() { // ends with the request that ends the MCP session
		defer close(closed)
		_ = c.session.Close()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}
