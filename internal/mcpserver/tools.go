package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// maxResultChars is the size up to which clients should show results to the model, if they would
// otherwise withhold large ones. Text stays well below it; images do not count as text.
const maxResultChars = 100_000

// A toolHandler answers a call of one tool. It returns nil if ctx ended, because then no answer
// is needed.
type toolHandler func(s *server, ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult

// A toolSet has everything that the definitions of the tools say to a model. A model reads them on
// every request, so they only teach facts that replies do not show.
type toolSet struct {
	wording   reply.Wording
	languages []string // sorted
	stdin     StdinPolicy
	servers   []string // MCP servers whose tools code may call
	remotes   []string // of the backend, with the default one first
	isShared  bool     // each call names its session
}

// newToolSet returns the definitions of the tools.
func newToolSet(o *Options, remotes []string, isShared bool) *toolSet {
	return &toolSet{
		wording: o.wording(), languages: slices.Sorted(maps.Keys(o.Specs)), stdin: o.Stdin,
		servers: o.Servers, remotes: remotes, isShared: isShared,
	}
}

// A definedTool is a tool of a toolSet.
type definedTool struct {
	*mcp.Tool
	handler toolHandler
}

// define returns the tools.
func (t *toolSet) define() (tools []definedTool) {
	no := false
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	stops := &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no, IdempotentHint: true}
	resets := &mcp.ToolAnnotations{OpenWorldHint: &no}

	add := func(name, title, description string, hints *mcp.ToolAnnotations, schema schema, h toolHandler) {
		tools = append(tools, definedTool{&mcp.Tool{
			Name:        t.wording.Prefix + name,
			Title:       title,
			Description: description,
			Annotations: hints,
			InputSchema: schema,
			Meta:        mcp.Meta{"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": maxResultChars},
		}, h})
	}
	about := t.descriptionPrefix()
	add("repl", "Run code", t.replDescription(), nil, t.replSchema(), (*server).handleRepl)
	add("repl_output", "Read output", about+outputDescription, reads, t.outputSchema(), (*server).handleOutput)
	add("repl_interrupt", "Interrupt", about+"Interrupt running code, like Ctrl-C. Variables stay.", stops, t.sessionSchema(), (*server).handleInterrupt)
	add("repl_reset", "Restart", about+"Restart the interpreter, even when busy. Variables are lost.", resets, t.resetSchema(), (*server).handleReset)
	add("repl_sessions", "List sessions", about+"List sessions: language, state, memory. Or the variables of one: type, shape, size.", reads, objectSchema(map[string]schema{"session": {Type: "string", Description: "list its variables"}}), (*server).handleSessions)
	return tools
}

// addTools adds the tools to the SDK server of one client.
func (s *server) addTools(to *mcp.Server) {
	var names []string
	for _, tool := range newToolSet(s.options, s.sessions.RemoteNames(), s.client.Shared).define() {
		names = append(names, tool.Name)
		to.AddTool(tool.Tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.runTool(ctx, req, tool.handler)
		})
	}
	to.AddReceivingMiddleware(rejectUnknownTools(names))
}

// errGivenUp answers a call that the client has given up. The SDK sends it to no client.
var errGivenUp = errors.New("the client has given up the call")

// runTool runs a tool for a call of the client.
func (s *server) runTool(ctx context.Context, req *mcp.CallToolRequest, h toolHandler) (*mcp.CallToolResult, error) {
	c, ok := s.client.Calls.FindCall(ctx, req)
	if !ok {
		if c != nil {
			c.ReturnAnswer(false)
		}
		return nil, errGivenUp
	}
	ctx, end := c.FollowContext(ctx)
	defer end()
	r := &toolRequest{ToolCall: c, sdk: req, codex: clientprofile.CodexStateOf(req.Params.Meta), beat: reply.NewHeartbeat(c.WantsProgress()), defaultCallWait: s.options.CallWait}
	defer r.leaveQueues()
	result := h(s, ctx, r, req.Params.Arguments)
	if result == nil {
		c.ReturnAnswer(false)
		return nil, errGivenUp
	}
	s.reportIgnored(r, result)
	r.protectText(result)
	if m := r.clientProfile(); m.ShowsRawResult || m.ShowsRawErrors && result.IsError {
		result.Meta = nil
	}
	c.ReturnAnswer(true)
	return result, nil
}

// rejectUnknownTools answers a call of an unknown tool with the names of the tools.
func rejectUnknownTools(names []string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && !slices.Contains(names, p.Name) {
				return nil, &jsonrpc.Error{
					Code:    jsonrpc.CodeInvalidParams,
					Message: fmt.Sprintf("unknown tool %q: the tools are %s", p.Name, text.JoinNames(names, "and", "none")),
				}
			}
			return next(ctx, method, req)
		}
	}
}

// descriptionPrefix starts the description of each tool with search words. Clients with many
// tools hide them, and search for them by words. One search must find all tools of this server.
func (t *toolSet) descriptionPrefix() string {
	return t.languageNames() + " REPL: code interpreter, Jupyter, data, statistics, debugger. "
}

func (t *toolSet) replDescription() string {
	accepted := "only keys are accepted"
	if t.stdin == StdinDeny {
		accepted = "no other input is accepted"
	}
	return t.descriptionPrefix() + "Run code; variables, imports and definitions stay for later calls. " +
		"Returns what it printed, the value of its last expression, and plots as images.\n" +
		t.stdin.toolDescription() + "\n" +
		"Code that takes longer than timeout_ms continues, and the reply ends with [running …]: " +
		t.wording.NameTools("then repl_output waits for it, repl_interrupt stops it, and "+accepted+".\n") +
		`Input "" waits for new output.` + t.toolsDescription()
}

// toolsDescription says how code finds the tools of servers, or returns "" without servers.
// Models pay for it on every request.
func (t *toolSet) toolsDescription() string {
	const maxChars = 40 // of the names
	if len(t.servers) == 0 {
		return ""
	}
	return "\nCode can call tools of " + joinFirstNames(t.servers, maxChars) + `: import turnstone; turnstone.search("words") finds them; from turnstone.tools import ` +
		t.servers[0][:min(len(t.servers[0]), maxChars)] + ". R: turnstone$search."
}

const outputDescription = "Wait for running code, and return its new output. " +
	"Or read output that a reply left out: grep for a regular expression, or lines by number."

// instructions returns the text that a model sees even if the tools are hidden: what the
// server does, and when to use it.
func (t *toolSet) instructions() string {
	text := "A live " + t.languageNames() + " interpreter (REPL, like a Jupyter kernel) with the user's own packages. " +
		"Use it instead of one-off scripts to compute, explore data, plot (images come back), debug, or run long jobs: variables stay between calls."
	if t.isShared {
		text += " Every call names its session: start with \"new\", then use the name that the reply gives."
	}
	return text
}

// languageNames returns the languages, capitalized and joined.
func (t *toolSet) languageNames() string {
	var names []string
	for _, lang := range t.languages {
		names = append(names, strings.ToUpper(lang[:1])+lang[1:])
	}
	return text.JoinNames(names, "or", "code")
}

// remotesDescription says how sessions on other remotes are named, or returns "" if there are
// none.
func (t *toolSet) remotesDescription() string {
	if len(t.remotes) < 2 {
		return ""
	}
	remotes := t.remotes[1:]
	return fmt.Sprintf("; %q is one on a remote: %s", remotes[0]+backend.RemoteSeparator+backend.MainSession, joinFirstNames(remotes, 100))
}

// joinFirstNames joins names of at most most characters in total. Otherwise it returns the first
// name and the number of names.
func joinFirstNames(names []string, most int) string {
	if all := strings.Join(names, ", "); len(all) <= most {
		return all
	}
	return fmt.Sprintf("%s, … (%d)", names[0][:min(len(names[0]), most)], len(names))
}

// A schema is the part of JSON Schema that the tools need. Properties are sorted by name.
type schema struct {
	Type        string            `json:"type,omitempty"`
	Description string            `json:"description,omitempty"`
	Enum        []string          `json:"enum,omitempty"`
	Properties  map[string]schema `json:"properties,omitzero"`
	Required    []string          `json:"required,omitempty"`
	Maximum     *int64            `json:"maximum,omitempty"`
}

// objectSchema returns the schema of a tool's arguments. It always has properties, even if empty,
// because some model services otherwise refuse all tools. It allows additional ones, because
// clients add their own.
func objectSchema(properties map[string]schema, required ...string) schema {
	if properties == nil {
		properties = map[string]schema{}
	}
	return schema{Type: "object", Properties: properties, Required: required}
}

func (t *toolSet) replSchema() schema {
	properties := map[string]schema{
		"input":      {Type: "string", Description: "code, or the answer to an input request"},
		"timeout_ms": timeSchema("how long to wait for the code; default 45000"),
		"eof":        {Type: "boolean", Description: "end of file after this answer"},
	}
	var required []string
	if t.stdin == StdinDeny {
		required = []string{"input"}
	} else {
		properties["keys"] = schema{Type: "string", Description: "instead of input, for a program at the terminal: text, <Enter>, <Down>, <C-c>, <lt> for <"}
	}
	if len(t.languages) > 1 {
		properties["lang"] = schema{Type: "string", Enum: t.languages, Description: "of a new session; default " + t.languages[0]}
	}
	return t.withSession(`an independent session, made on first use; "new" makes one`+t.remotesDescription(), properties, required...)
}

func (t *toolSet) outputSchema() schema {
	return t.withSession("", map[string]schema{
		"wait_ms": timeSchema("how long to wait; default 45000, 0 does not wait"),
		"until":   {Type: "string", Description: "return at a new line that matches this regular expression"},
		"grep":    {Type: "string", Description: "show lines that match this regular expression (RE2)"},
		"lines":   {Type: "string", Description: `lines to show: "120-180", "120-", "-50" for the last 50`},
		"screen":  {Type: "boolean", Description: "show the terminal's screen"},
	})
}

func (t *toolSet) resetSchema() schema {
	return t.withSession("", map[string]schema{"close": {Type: "boolean", Description: "end the session for good"}})
}

func (t *toolSet) sessionSchema() schema {
	return t.withSession("", map[string]schema{})
}

// withSession adds the argument session to the arguments of a tool. Only one tool describes it,
// because models pay for each description.
func (t *toolSet) withSession(description string, properties map[string]schema, required ...string) schema {
	if t.isShared {
		required = append(required, "session")
	} else if description != "" {
		description += "; default: the main one"
	}
	properties["session"] = schema{Type: "string", Description: description}
	return objectSchema(properties, required...)
}

func timeSchema(description string) schema {
	high := maxTimeout.Milliseconds()
	return schema{Type: "integer", Maximum: &high, Description: description}
}

// maxIgnoredNames bounds the names of unknown arguments that are reported to a client.
const maxIgnoredNames = 64

// reportIgnored adds a line for each ignored argument to a result, once for each name.
func (s *server) reportIgnored(r *toolRequest, result *mcp.CallToolResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range r.unknownNames {
		if result.IsError || len(s.reportedNames) == maxIgnoredNames || s.reportedNames[name] {
			continue
		}
		if s.reportedNames == nil {
			s.reportedNames = make(map[string]bool)
		}
		s.reportedNames[name] = true
		result.Content = reply.AddLine(result.Content, fmt.Sprintf("[unknown argument %q was ignored]", name))
	}
}
