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

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callerstate"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/elicitation"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// Options configure the server of Run and RunHTTP. Specs, and a Supervisor or a Backend, are
// required.
type Options struct {
	// Supervisor opens the sessions. The server closes the ones that it opened.
	Supervisor *supervisor.Supervisor

	// Backend provides the sessions instead; they remain when the server ends. Then only the
	// language names in Specs are used.
	Backend backend.Backend

	// Specs has, for each language, a func that returns how to start its worker in a directory;
	// "" leaves the directory to it. It is called when a session is opened, and may search for
	// the runtime.
	Specs map[string]func(dir string) workers.Spec

	// Sandbox is the sandbox of the specs, and of a backend's sessions.
	Sandbox *sandbox.Policy

	// CanConfine means that this system supports sandboxes, which a client may require.
	CanConfine bool

	// With names the packages that the specs prepare, for the model.
	With []string

	// Dir is the directory of sessions; "" means the client's directory, if it names one.
	Dir string

	// Default is the language of the main session, which is opened ahead. "" means the
	// only language, or none if there are several.
	Default string

	// Stdin says who answers when code reads standard input; "" means StdinAuto.
	Stdin StdinPolicy

	// CallWait is how long an unknown client is assumed to wait for a call. A call is answered by
	// then, whatever it waits for. 0 means clientprofile.DefaultCallWait.
	CallWait time.Duration

	// HasBrowser means that the user probably has a browser on this machine, for secrets that
	// bypass the client.
	HasBrowser bool

	// ImageSide is the longest side of an image in a reply, in pixels; larger images are shrunk.
	// 0 means DefaultImageSide; a negative number disables shrinking.
	ImageSide int

	// In and Out are the streams of the client. Only protocol messages are written to Out. The
	// goroutine that reads In ends with In: see the package comment.
	In  io.Reader
	Out io.Writer

	// Author is the author of the client's turns; "" means "mcp".
	Author string

	// ToolPrefix precedes the names of the tools.
	ToolPrefix string

	// hostID distinguishes the servers of other programs that share a supervisor. It is "" for a
	// server of this package.
	hostID string

	// Servers are the names of MCP servers whose tools code may call, for the model.
	Servers []string

	// Logger receives facts that no caller learns; it may be nil.
	Logger *slog.Logger

	// Version is the version of the program, for display in the client; "" means "dev".
	Version string
}

// DefaultImageSide bounds the longest side of an image in a reply, in pixels.
const DefaultImageSide = reply.DefaultImageSide

// defaultAuthor is the author of the turns of clients without a name.
const defaultAuthor = "mcp"

// A server implements the tools for one client, with the client's own sessions.
type server struct {
	options   *Options
	client    mcptransport.ServedClient
	wording   reply.Wording
	sessions  *callerstate.SessionSet
	stdin     StdinPolicy
	imageSide int
	asker     *elicitation.Asker
	roots     clientRoots

	mu            sync.Mutex
	reportedNames map[string]bool         // guarded by mu; unknown arguments reported to the client, at most maxIgnoredNames
	pending       map[string]*pendingCall // guarded by mu; by handle
	pendingOrder  []string                // guarded by mu; handles in pending, oldest first
}

// newServer returns the server of one client. The options must be complete.
func newServer(o *Options, c mcptransport.ServedClient) *server {
	config := callerstate.SessionSetConfig{
		Backend: o.Backend, Specs: o.Specs, Sandbox: o.Sandbox, CanConfine: o.CanConfine, Packages: o.With, Dir: o.Dir,
		DefaultLang: o.Default, Wording: o.wording(), Logger: o.Logger, Shared: c.Shared, IdleTimeout: c.IdleTimeout,
	}
	var local *backend.Local
	if o.Backend == nil {
		local = newLocal(o, c)
		config.Backend = local
	}
	s := &server{
		options: o, client: c, wording: o.wording(), sessions: callerstate.NewSessionSet(&config),
		stdin: o.Stdin, imageSide: o.ImageSide, pending: make(map[string]*pendingCall),
	}
	if local != nil {
		local.MakeRoom = s.sessions.MakeRoom
	}
	s.asker = &elicitation.Asker{Lifetime: s.sessions.ContextUntilClosed(), HasBrowser: o.HasBrowser, DeniesInput: o.Stdin == StdinDeny}
	return s
}

// Run serves a client until its input ends, which is not an error, or ctx ends. Then it closes the
// sessions that it opened, even busy ones, and waits until they are closed, which takes about
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

// MinIdleTimeout is the least mcptransport.HTTPOptions.IdleTimeout that users may choose. It is
// longer than any call takes.
const MinIdleTimeout = maxTimeout + 5*time.Minute

// RunHTTP serves any number of clients over streamable HTTP, until ctx ends or the listener
// fails. It ignores In and Out. With a protocol version up to 2025-11-25, a client has an MCP
// session, and its REPL sessions are its own. From 2026-07-28 on, each call is independent; all
// such calls share their sessions, and must name them. At the end, RunHTTP closes the sessions
// that it opened, even busy ones, and waits, which takes about supervisor.Options.StopGrace.
func RunHTTP(ctx context.Context, opts *Options, h *mcptransport.HTTPOptions) error {
	o, err := opts.withDefaults()
	switch {
	case err != nil:
		return err
	case o.Supervisor == nil:
		return errors.New("mcpserver: a Supervisor is required over HTTP, where sessions belong to the server")
	}
	return mcptransport.ServeHTTP(ctx, h, o.Logger, o.newTools)
}

// newTools is newServer, as mcptransport expects it.
func (opts *Options) newTools(c mcptransport.ServedClient) mcptransport.Tools {
	return newServer(opts, c)
}

// OpenAhead implements mcptransport.Tools.
func (s *server) OpenAhead() { s.sessions.OpenAhead() }

// IsUsed implements mcptransport.Tools.
func (s *server) IsUsed() bool { return s.sessions.HasUsedSession() }

// Close implements mcptransport.Tools.
func (s *server) Close() {
	s.asker.Pages.Close()
	s.sessions.Close()
}

// wording returns how texts for a model name the tools and the server.
func (opts *Options) wording() reply.Wording {
	return reply.Wording{Prefix: opts.ToolPrefix, InHost: opts.hostID != ""}
}

// withDefaults checks the options that every transport needs, and sets defaults.
func (opts *Options) withDefaults() (*Options, error) {
	o := *opts
	switch {
	case o.Supervisor == nil && o.Backend == nil:
		return nil, errors.New("mcpserver: a Supervisor or a Backend is required")
	case len(o.Specs) == 0:
		return nil, errors.New("mcpserver: no language is specified")
	case o.Default != "" && o.Specs[o.Default] == nil:
		return nil, fmt.Errorf("mcpserver: the default language %q is not in Specs", o.Default)
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
		return nil, fmt.Errorf("mcpserver: unknown policy %q for standard input", o.Stdin)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	return &o, nil
}

// NewSDKServer implements mcptransport.Tools.
func (s *server) NewSDKServer(sessionID func() string) *mcp.Server {
	o := s.options
	sdk := mcp.NewServer(&mcp.Implementation{Name: "turnstone", Title: "Turnstone REPL", Version: o.Version}, &mcp.ServerOptions{
		Instructions: newToolSet(o, nil, s.client.Shared).instructions(),
		Logger:       o.Logger,
		// The default capabilities would include logging and changing lists of tools.
		Capabilities: &mcp.ServerCapabilities{
			Tools:        &mcp.ToolCapabilities{},
			Experimental: map[string]any{clientprofile.CodexCapability: struct{}{}},
		},
		GetSessionID: sessionID,
		//lint:ignore SA1019 see clientRoots
		RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) { s.roots.invalidate() },
	})
	s.addTools(sdk)
	sdk.AddReceivingMiddleware(logRequests(o.Logger))
	sdk.AddSendingMiddleware(elicitation.ConvertAnswers)
	return sdk
}
