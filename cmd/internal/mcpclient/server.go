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
	startTimeout     = 2 * time.Minute  // of a server, with the list of its tools: npx and uvx may download it first
	maxStartDelay    = 30 * time.Second // between starts that fail
	maxTools         = 1000             // of one server
	maxPages         = 100              // of its list
	maxToolBytes     = 256 << 10        // bytes of a tool's description and schemas,
	maxAllToolsBytes = 1 << 20          // and of those of all tools of a server
	closeTimeout     = 2 * time.Second  // for the good-bye of a server at an address
)

// A server is one of a Set.
type server struct {
	ServerConfig
	set *ServerSet

	mu             sync.Mutex
	current        *connection
	starting       *startAttempt // while one is under way
	tools          []*mcp.Tool
	toolsKnown     bool // tools are known, if perhaps from an earlier connection
	failedStarts   int  // starts that failed, in a row
	lastStartError error
	retryAt        time.Time // before that no start is tried
	isRefreshing   bool      // the tools are being listed anew,
	toolsChanged   bool      // and have changed since that began
	callCount      int       // that began
	openCalls      map[string]*openCall
	omitted        []string // tools that code cannot have, and why
}

// An openCall is a call of a tool that runs.
type openCall struct {
	supervisor.Caller
	ctx    context.Context // ends with the call
	number int             // of the calls that began
}

// A startAttempt is one attempt, for all who wait for it.
type startAttempt struct {
	done chan struct{}
	conn *connection
	err  error
}

// A connection is one to a server that runs.
type connection struct {
	session *mcp.ClientSession
	program *supervisor.RunningProgram // nil for a server at an address
	stdio   *stdioTransport            // likewise
	ended   chan struct{}              // closed when nothing comes any more
}

// ensureConnected returns the connection, and starts the server if need be.
func (s *server) ensureConnected(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	if c := s.current; c != nil && !c.isEnded() {
		s.mu.Unlock()
		return c, nil
	}
	if s.starting == nil {
		if pause := time.Until(s.retryAt); pause > 0 {
			s.mu.Unlock()
			return nil, s.startError(fmt.Errorf("%w (it is tried again in %.0f s)", s.lastStartError, pause.Seconds()+1))
		}
		s.starting = &startAttempt{done: make(chan struct{})}
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

// startError is the error for code that uses a server that does not run.
func (s *server) startError(err error) error {
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

// runStart makes a connection and lists the tools.
func (s *server) runStart(under *startAttempt) {
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
			err = fmt.Errorf("it did not answer within %s", s.set.timeouts.start)
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

// watchConnection takes note of the end of a connection.
func (s *server) watchConnection(c *connection, stop func()) {
	defer stop()
	_ = c.session.Wait()
	close(c.ended)
	if c.program != nil {
		c.program.WaitStderr() // which its end would cut off, for the errors of its calls
	}
	c.close()
}

// connectWithRetry starts the server, or reaches it. A process that answered server/discover too late speaks
// only the newer way then, so it is started once more, and waited for.
func (s *server) connectWithRetry(ctx context.Context) (*connection, error) {
	c, err := s.connectOnce(ctx, s.set.timeouts.discover)
	if err != nil && ctx.Err() == nil && c.stdio != nil && c.stdio.hasAnsweredLate() {
		c.close()
		c, err = s.connectOnce(ctx, s.set.timeouts.start)
	}
	return c, err
}

// connectOnce is one attempt, with patience for the answer to server/discover.
func (s *server) connectOnce(ctx context.Context, patience time.Duration) (*connection, error) {
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

// clientOptions are what the server can ask of us. Sampling is not offered: code that wants a model
// asks one itself.
func (s *server) clientOptions() *mcp.ClientOptions {
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

// newHTTPTransport returns the transport of a server at an address.
func (s *server) newHTTPTransport() mcp.Transport {
	client := &http.Client{Transport: &headerTransport{headers: s.Headers, address: s.URL, next: http.DefaultTransport}}
	if s.SSE {
		return &mcp.SSEClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessageBytes}
	}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessageBytes}
}

// headerTransport adds headers to what goes to the configured address, and to no other.
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

// isSessionUnknown reports whether an answer says that the server does not know our session. The protocol has
// the status 404 for that; the reference server in TypeScript, and all that were made after it, answer
// 400 with words about the session.
func isSessionUnknown(response *http.Response) bool {
	const enough = 4 << 10 // bytes of words
	switch response.StatusCode {
	case http.StatusNotFound:
		return true
	case http.StatusBadRequest:
		words, err := io.ReadAll(io.LimitReader(response.Body, enough))
		rest := response.Body
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(words), rest), rest}
		return err == nil && bytes.Contains(bytes.ToLower(words), []byte("session"))
	}
	return false
}

// markSessionUnknown leaves of an answer only that the server does not know our session any more: it was started
// anew, or has ended the session. The SDK would take an error in it, which most servers send, for the
// answer to the call, and would keep the session for ever. The call has not begun.
func markSessionUnknown(r *http.Request, response *http.Response) {
	_ = response.Body.Close()
	response.StatusCode, response.Body, response.ContentLength = http.StatusNotFound, http.NoBody, 0
	if refused, ok := r.Context().Value(sessionUnknownKey{}).(*atomic.Bool); ok {
		refused.Store(true)
	}
}

// sessionUnknownKey is the context key of what forget sets for a call.
type sessionUnknownKey struct{}

// listTools returns the tools of a server, as many as we take.
func listTools(ctx context.Context, session *mcp.ClientSession) (all []*mcp.Tool, err error) {
	cursor := ""
	for range maxPages {
		page, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, fmt.Errorf("it does not list its tools: %w", err)
		}
		all = append(all, page.Tools...)
		if cursor = page.NextCursor; cursor == "" || len(all) >= maxTools {
			break
		}
	}
	return all[:min(len(all), maxTools)], nil
}

// refreshTools lists the tools anew, because they have changed, and tells the sessions.
func (s *server) refreshTools() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toolsChanged = true
	if s.isRefreshing || s.current == nil {
		return // it is being done, or comes with the start
	}
	s.isRefreshing = true
	go func() {
		for s.refreshOnce() {
		}
		s.set.refreshSessions()
	}()
}

// refreshOnce reports whether the tools have changed again meanwhile.
func (s *server) refreshOnce() (again bool) {
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

// callTool calls a tool.
func (s *server) callTool(ctx context.Context, caller supervisor.Caller, tool string, args map[string]any) (any, error) {
	text, err := json.Marshal(args) // never null
	if err != nil {
		return nil, &supervisor.CallError{Name: "TypeError", Message: fmt.Sprintf("%s: the arguments cannot be sent as JSON: %v", caller.Function, err)}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // withdraws what the server asks
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
	if told, ok := errors.AsType[*jsonrpc.Error](err); ok && !errors.Is(err, mcp.ErrConnectionClosed) {
		switch {
		case told.Code == mcp.CodeURLElicitationRequired:
			return nil, s.askToVisit(ctx, caller, told)
		case told.Message == notSentText:
			return nil, &supervisor.CallError{Name: "ConnectionError", Message: fmt.Sprintf(
				"the server %s was not reached for %s: %s", s.Name, tool, strings.ReplaceAll(err.Error(), notSentText+": ", ""))}
		}
		return nil, &supervisor.CallError{Name: "ToolError", Message: told.Message}
	}
	if wrong := unusableResult(err); wrong != "" {
		return nil, &supervisor.CallError{Name: "ToolError", Message: fmt.Sprintf("the server %s did %s, but its answer cannot be used: %s", s.Name, tool, wrong)}
	}
	return nil, &supervisor.CallError{Name: "ConnectionError", Message: fmt.Sprintf(
		"the connection to the server %s ended during %s, which may have been done: %v", s.Name, tool, c.explainError(err))}
}

// sendCall sends a call, and once more if the server does not know our session any more. Without a connection
// it returns a nil one.
func (s *server) sendCall(ctx context.Context, params *mcp.CallToolParams) (c *connection, result *mcp.CallToolResult, err error) {
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
		case <-c.ended: // so the next one is new
		case <-ctx.Done():
			return c, nil, err
		}
	}
}

// notSentText is in the SDK's error for a message to an address that did not go through, while the
// connection stands.
const notSentText = "rejected by transport"

// registerCall notes a call that runs, for its progress and its questions.
func (s *server) registerCall(ctx context.Context, caller supervisor.Caller) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callCount++
	token = fmt.Sprintf("%s-%d", s.Group, s.callCount)
	s.openCalls[token] = &openCall{caller, ctx, s.callCount}
	return token
}

func (s *server) unregisterCall(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.openCalls, token)
}

// forwardProgress shows the progress of a call as that of its turn.
func (s *server) forwardProgress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	one, ok := s.openCalls[token]
	s.mu.Unlock()
	if ok {
		one.ReportProgress(p.Progress, p.Total, p.Message)
	}
}

// explainError adds what a process has said at its end, and on its standard output beside messages.
func (c *connection) explainError(err error) error {
	if c.program == nil {
		return err
	}
	if errors.Is(err, mcp.ErrConnectionClosed) || strings.HasSuffix(err.Error(), "EOF") {
		c.program.WaitStderr()
	}
	words := []string{err.Error()}
	if c.stdio.hasStoppedReading() {
		words = append(words, "it does not read what it is sent")
	}
	if said := c.program.StderrSummary(); said != "" {
		words = append(words, said)
	}
	if junk := c.stdio.FirstJunk(); junk != "" {
		words = append(words, fmt.Sprintf("it wrote to its standard output: %q", junk))
	}
	return errors.New(strings.Join(words, ": "))
}

// close ends a connection and its process, with all that it started.
func (c *connection) close() {
	if c.program != nil {
		_ = c.program.Close()
	}
	if c.session == nil {
		return
	}
	over := make(chan struct{})
	go func() { // ends with the request that says good-bye to an address
		defer close(over)
		_ = c.session.Close()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	}
}
