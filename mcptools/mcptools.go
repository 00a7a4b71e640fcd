package mcptools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// Options configure the tools that Add adds, and the sessions behind them. Languages is required.
type Options struct {
	// Languages has, for each language that a model may choose, a func that returns how to start its
	// worker in a directory. It is called for each session, and may search for the runtime.
	Languages map[string]func(dir string) workers.Spec

	// Default is the language of the session main, which calls that name no session use. "" means
	// the only language, or none if there are several.
	Default string

	// Sandbox confines the code of every session; nil means DefaultSandbox. A policy of the level
	// sandbox.Full leaves it all rights of this program. A language that sets another one is an error.
	Sandbox *sandbox.Policy

	// Limits bound the resources of each session. They replace those of a language, unless they are
	// zero.
	Limits workers.Limits

	// Dir is the directory in which sessions work, and the workspace of their sandbox; "" means that
	// of this process. A client cannot choose another.
	Dir string

	// Stdin says who answers when code reads its standard input; "" means StdinAuto.
	Stdin StdinPolicy

	// Prefix precedes the names of the tools. It may have letters, digits, _, - and dots.
	Prefix string

	// IdleTimeout is how long a session lives without a call if its caller has no MCP session. It
	// must be at least MinIdleTimeout; 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration

	// ImageSide is the longest side of an image in a reply, in pixels; larger images are shrunk.
	// 0 means 1568; a negative number disables shrinking.
	ImageSide int

	// HasBrowser means that the user of the client has a browser on this machine. Clients that can
	// open a page then ask there for secrets.
	HasBrowser bool

	// Logger receives facts that no caller learns, without code and output; it may be nil.
	Logger *slog.Logger
}

// A StdinPolicy says who answers when code reads its standard input.
type StdinPolicy = mcpserver.StdinPolicy

// The policies for standard input. Permissions and forms are always for the user.
const (
	StdinAuto  = mcpserver.StdinAuto  // the model; the user if the input is secret
	StdinModel = mcpserver.StdinModel // the model, even for secrets
	StdinAsk   = mcpserver.StdinAsk   // the user, through the client
	StdinDeny  = mcpserver.StdinDeny  // every read gets end of file
)

const (
	// DefaultIdleTimeout replaces an Options.IdleTimeout of 0.
	DefaultIdleTimeout = mcptransport.DefaultIdleTimeout

	// MinIdleTimeout is the least Options.IdleTimeout. It is longer than any call takes.
	MinIdleTimeout = mcpserver.MinIdleTimeout
)

// DefaultSandbox returns the sandbox of sessions for which Options.Sandbox is nil. On Linux, code
// may write only its directory, sees no secrets of the user, and reaches nothing in the network. If
// the system refuses such a sandbox, each call reports that and no code runs. Other systems have no
// sandbox, and the result is nil.
//
// The user of the client is not asked for more rights, because this package cannot know whether
// that user may decide about this machine. Set AskUser if so.
func DefaultSandbox() *sandbox.Policy {
	if !canConfine {
		return nil
	}
	return &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList}
}

// listTimeout bounds how long Add waits for the server's list of its own tools.
const listTimeout = 10 * time.Second

// Add adds the tools to a server. It returns an error if the server has a tool of the same name;
// see Options.Prefix. Add it before middleware that hides tools, which would hide them from this
// check too. A tool that you add later replaces one of the same name, as the SDK has it.
//
// done takes the tools away, closes the sessions that they opened, even busy ones, and waits until
// they are closed. Call it before you close the supervisor. It may be called more than once.
func Add(server *mcp.Server, sup *supervisor.Supervisor, o Options) (done func(), err error) {
	if server == nil || sup == nil {
		return nil, errors.New("mcptools: a server and a supervisor are required")
	}
	options, err := o.serverOptions()
	if err != nil {
		return nil, fmt.Errorf("mcptools: %w", err)
	}
	options.Supervisor = sup
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	done, err = mcpserver.AddTo(ctx, server, options, cmp.Or(o.IdleTimeout, DefaultIdleTimeout))
	if err != nil {
		return nil, fmt.Errorf("mcptools: %w", err)
	}
	return done, nil
}

// validPrefix matches prefixes with which the names of the tools are short enough for all clients.
var validPrefix = text.Pattern(`^[A-Za-z0-9_.-]{0,40}$`)

// serverOptions checks the options and translates them.
func (o *Options) serverOptions() (*mcpserver.Options, error) {
	switch {
	case len(o.Languages) == 0:
		return nil, errors.New("no language is specified")
	case o.Default != "" && o.Languages[o.Default] == nil:
		return nil, fmt.Errorf("the default language %q is not in Languages", o.Default)
	case o.Stdin != "" && !slices.Contains(mcpserver.StdinPolicies(), o.Stdin):
		return nil, fmt.Errorf("unknown policy %q for standard input", o.Stdin)
	case !validPrefix().MatchString(o.Prefix):
		return nil, fmt.Errorf("the prefix %q must have at most 40 letters, digits, _, - and dots", o.Prefix)
	case o.IdleTimeout != 0 && o.IdleTimeout < MinIdleTimeout:
		return nil, fmt.Errorf("the idle timeout %v must be at least %v, because a call may take that long", o.IdleTimeout, MinIdleTimeout)
	}
	policy := o.Sandbox
	if policy == nil {
		policy = DefaultSandbox()
	}
	if err := errors.Join(policy.Validate(), o.Limits.Validate()); err != nil {
		return nil, err
	}
	if !policy.Confines() {
		policy = nil
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if i, err := os.Stat(dir); err != nil || !i.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	specs := make(map[string]func(string) workers.Spec, len(o.Languages))
	for name, language := range o.Languages {
		if name == "" || language == nil {
			return nil, fmt.Errorf("the language %q needs a name and a func", name)
		}
		specs[name] = o.confinedSpec(language, policy)
	}
	return &mcpserver.Options{
		Specs: specs, Sandbox: policy, CanConfine: canConfine, Dir: dir, Default: o.Default,
		Stdin: o.Stdin, HasBrowser: o.HasBrowser, ImageSide: o.ImageSide,
		ToolPrefix: o.Prefix, Logger: o.Logger,
	}, nil
}

// confinedSpec returns a language with the sandbox and the limits of the options.
func (o *Options) confinedSpec(language func(string) workers.Spec, policy *sandbox.Policy) func(dir string) workers.Spec {
	own, limits := o.Sandbox, o.Limits
	return func(dir string) workers.Spec {
		spec := language(dir)
		if spec.Sandbox != nil && spec.Sandbox != own && spec.Err == nil {
			spec.Err = errors.New("the language has a sandbox of its own, which could be weaker or stricter; set Options.Sandbox instead")
		}
		spec.Sandbox = policy
		if spec.Dir == "" {
			spec.Dir = dir
		}
		if limits != (workers.Limits{}) {
			spec.Limits = limits
		}
		return spec
	}
}

// Ordered returns a transport for a server with these tools, by which calls start in the order of
// their arrival. It must be one stream, such as [mcp.StdioTransport] or [mcp.InMemoryTransport]. A
// server that connects to an [mcp.StreamableServerTransport] in this way gets an error.
func Ordered(t mcp.Transport) mcp.Transport {
	return &mcptransport.Ordered{Transport: t, QueueOf: mcpserver.QueueOfTool}
}
