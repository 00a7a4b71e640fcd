package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// Options configure a server. It needs Specs, and a Supervisor or a Host.
type Options struct {
	// Supervisor opens the sessions. The server closes those that it opened.
	Supervisor *supervisor.Supervisor

	// Backend has the sessions instead; they stay when the server ends. Then only the names
	// of languages in Specs are used.
	Backend Backend

	// Specs has, for each language, a func that returns how to start its worker in a
	// directory; "" means its own choice. It is called when a session is opened, and may
	// search for the runtime.
	Specs map[string]func(dir string) workers.Spec

	// Sandbox is that of the specs, and of a host's sessions.
	Sandbox *workers.Sandbox

	// CanConfine says that sessions can be confined on this system, as a client may ask.
	CanConfine bool

	// With names what the specs prepare, for the model.
	With []string

	// Dir is the directory of sessions; "" means the client's directory, if it names one.
	Dir string

	// Default is the language of the main session, which is opened ahead. "" means the
	// only language, or none if there are several.
	Default string

	// Stdin says who answers when code reads standard input; "" means StdinAuto.
	Stdin StdinPolicy

	// CallWait is how long a client waits for a call if no more is known of it. A call is answered
	// by then, whatever it waits for. 0 means DefaultCallWait.
	CallWait time.Duration

	// ImageSide is the longest side of a picture in a reply, in pixels; larger ones
	// are shrunk. 0 means DefaultImageSide, a negative number never.
	ImageSide int

	// In and Out are the client's end. Only protocol is written to Out. The goroutine that
	// reads In ends with In: see the package comment.
	In  io.Reader
	Out io.Writer

	// Author is the author of the client's turns; "" means "mcp".
	Author string

	// Servers are the names of servers whose tools code may call, for the model.
	Servers []string

	// Logger gets facts that no caller learns; it may be nil.
	Logger *slog.Logger

	// Version is the program's, for the client's display; "" means "dev".
	Version string
}

// defaultAuthor is the author of turns of clients without another name.
const defaultAuthor = "mcp"

// A server serves one client: tools for the client's own sessions.
type server struct {
	options   *Options
	calls     mcptransport.CallFinder
	sessions  *sessions
	stdin     StdinPolicy
	imageSide int
	servers   []string
	pages     browserprompt.Pages
	roots     clientRoots

	mu            sync.Mutex
	reportedNames map[string]bool             // guarded by mu; unknown arguments that the client was told of, at most maxIgnoredNames
	pending       map[string]*pendingQuestion // guarded by mu; by their handles
	pendingOrder  []string                    // guarded by mu; of pending, oldest first
}

// newServer returns the server of one client. The options must be complete.
func newServer(o *Options, c mcptransport.ServedClient) *server {
	return &server{options: o, calls: c.Calls, sessions: newSessions(o, c), stdin: o.Stdin, imageSide: o.ImageSide, servers: o.Servers, pending: make(map[string]*pendingQuestion)}
}

// Run serves the client until its input ends, which is no error, or ctx does. Then it closes the
// sessions that it opened, even busy ones, and waits for that: about
// supervisor.Options.StopGrace. If the client does not read, that takes half a second more, and a
// write to Out may stay blocked.
func Run(ctx context.Context, opts *Options) error {
	o, err := opts.withDefaults()
	switch {
	case err != nil:
		return err
	case o.In == nil || o.Out == nil:
		return errors.New("mcpserver: In and Out are required")
	}
	return mcptransport.Serve(ctx, o.In, o.Out, o.Logger, o.newTools)
}

// MinIdleTimeout is the least mcpwire.HTTPOptions.IdleTimeout that users may choose. It is longer than any
// call takes.
const MinIdleTimeout = maxTimeout + 5*time.Minute

// RunHTTP serves any number of clients over streamable HTTP until ctx ends, or the listener
// fails. It ignores In and Out of opts. A client of the versions up to 2025-11-25 has an MCP
// session, and its sessions are its own. From 2026-07-28 on, each call stands alone. All such
// calls share their sessions, and must name them. At the end, RunHTTP closes the sessions that
// it opened, even busy ones, and waits: about supervisor.Options.StopGrace.
func RunHTTP(ctx context.Context, opts *Options, h *mcptransport.HTTPOptions) error {
	o, err := opts.withDefaults()
	switch {
	case err != nil:
		return err
	case o.Supervisor == nil:
		return errors.New("mcpserver: over HTTP sessions are the server's own: a Supervisor is required")
	}
	return mcptransport.ServeHTTP(ctx, h, o.Logger, o.newTools)
}

// newTools returns newServer for mcpwire.
func (o *Options) newTools(c mcptransport.ServedClient) mcptransport.Tools { return newServer(o, c) }

// OpenAhead implements mcpwire.Tools.
func (s *server) OpenAhead() { s.sessions.openAhead() }

// IsUsed implements mcpwire.Tools.
func (s *server) IsUsed() bool { return s.sessions.hasUsedSession() }

// Close implements mcpwire.Tools.
func (s *server) Close() {
	s.pages.Close()
	s.sessions.close()
}

// withDefaults checks the options that every transport needs, and fills in the rest.
func (opts *Options) withDefaults() (*Options, error) {
	o := *opts
	switch {
	case o.Supervisor == nil && o.Backend == nil:
		return nil, errors.New("mcpserver: a Supervisor or a Host is required")
	case len(o.Specs) == 0:
		return nil, errors.New("mcpserver: no language is given")
	case o.Default != "" && o.Specs[o.Default] == nil:
		return nil, fmt.Errorf("mcpserver: the default language %q is not among those given", o.Default)
	}
	if o.Author == "" {
		o.Author = defaultAuthor
	}
	if o.ImageSide == 0 {
		o.ImageSide = DefaultImageSide
	}
	if o.Stdin == "" {
		o.Stdin = StdinAuto
	}
	if !slices.Contains(StdinPolicies(), o.Stdin) {
		return nil, fmt.Errorf("mcpserver: no policy %q for standard input", o.Stdin)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	return &o, nil
}

// NewSDKServer implements mcpwire.Tools.
func (s *server) NewSDKServer(sessionID func() string) *mcp.Server {
	o := s.options
	sdk := mcp.NewServer(&mcp.Implementation{Name: "turnstone", Title: "Turnstone REPL", Version: o.Version}, &mcp.ServerOptions{
		Instructions: s.serverInstructions(),
		Logger:       o.Logger,
		// Said in full, since the default has logging and changing lists of tools.
		Capabilities: &mcp.ServerCapabilities{
			Tools:        &mcp.ToolCapabilities{},
			Experimental: map[string]any{codexSandboxCapability: struct{}{}},
		},
		GetSessionID: sessionID,
		//lint:ignore SA1019 see roots
		RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) { s.roots.invalidate() },
	})
	s.addTools(sdk)
	sdk.AddReceivingMiddleware(logRequests(o.Logger))
	sdk.AddSendingMiddleware(convertAnswers)
	return sdk
}
