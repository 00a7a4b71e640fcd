package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
type toolHandler func(ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult

// addTools declares the tools. A model reads their descriptions on every request, so they only
// teach facts that replies do not show.
func (s *server) addTools(to *mcp.Server) {
	no := false
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	stops := &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no, IdempotentHint: true}
	resets := &mcp.ToolAnnotations{OpenWorldHint: &no}

	names := make([]string, 0, 5)
	add := func(name, title, description string, hints *mcp.ToolAnnotations, schema schema, h toolHandler) {
		names = append(names, name)
		to.AddTool(&mcp.Tool{
			Name:        name,
			Title:       title,
			Description: description,
			Annotations: hints,
			InputSchema: schema,
			Meta:        mcp.Meta{"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": maxResultChars},
		}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if c, ok := s.client.Calls.FindCall(ctx, req); ok {
				r := &toolRequest{ToolCall: c, sdk: req, codex: clientprofile.CodexStateOf(req.Params.Meta), beat: reply.NewHeartbeat(c.WantsProgress()), defaultCallWait: s.options.CallWait}
				defer r.leaveQueues()
				if result := h(ctx, r, req.Params.Arguments); result != nil {
					s.reportIgnored(r, result)
					r.protectText(result)
					if m := r.clientProfile(); m.ShowsRawResult || m.ShowsRawErrors && result.IsError {
						result.Meta = nil
					}
					return result, nil
				}
			}
			return nil, errors.New("the client has given up the call") // the SDK sends it to no client
		})
	}

	about := s.descriptionPrefix()
	add("repl", "Run code", s.replDescription(), nil, s.replSchema(), s.handleRepl)
	add("repl_output", "Read output", about+outputDescription, reads, s.outputSchema(), s.handleOutput)
	add("repl_interrupt", "Interrupt", about+"Interrupt running code, like Ctrl-C. Variables stay.", stops, s.sessionSchema(), s.handleInterrupt)
	add("repl_reset", "Restart", about+"Restart the interpreter, even when busy. Variables are lost.", resets, s.resetSchema(), s.handleReset)
	add("repl_sessions", "List sessions", about+"List sessions: language, state, memory. Or the variables of one: type, shape, size.", reads, objectSchema(map[string]schema{"session": {Type: "string", Description: "list its variables"}}), s.handleSessions)

	to.AddReceivingMiddleware(rejectUnknownTools(names))
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
func (s *server) descriptionPrefix() string {
	return s.languageNames() + " REPL: code interpreter, Jupyter, data, statistics, debugger. "
}

func (s *server) replDescription() string {
	accepted := "only keys are accepted"
	if s.stdin == StdinDeny {
		accepted = "no other input is accepted"
	}
	return s.descriptionPrefix() + "Run code; variables, imports and definitions stay for later calls. " +
		"Returns what it printed, the value of its last expression, and plots as images.\n" +
		s.stdin.toolDescription() + "\n" +
		"Code that takes longer than timeout_ms continues, and the reply ends with [running …]: " +
		"then repl_output waits for it, repl_interrupt stops it, and " + accepted + ".\n" +
		`Input "" waits for new output.` + s.toolsDescription()
}

// toolsDescription says how code finds the tools of servers, or returns "" without servers.
// Models pay for it on every request.
func (s *server) toolsDescription() string {
	const maxChars = 40 // of the names
	if len(s.servers) == 0 {
		return ""
	}
	return "\nCode can call tools of " + joinFirstNames(s.servers, maxChars) + `: import turnstone; turnstone.search("words") finds them; from turnstone.tools import ` +
		s.servers[0][:min(len(s.servers[0]), maxChars)] + ". R: turnstone$search."
}

const outputDescription = "Wait for running code, and return its new output. " +
	"Or read output that a reply left out: grep for a regular expression, or lines by number."

// serverInstructions returns the text that a model sees even if the tools are hidden: what the
// server does, and when to use it.
func (s *server) serverInstructions() string {
	text := "A live " + s.languageNames() + " interpreter (REPL, like a Jupyter kernel) with the user's own packages. " +
		"Use it instead of one-off scripts to compute, explore data, plot (images come back), debug, or run long jobs: variables stay between calls."
	if s.client.Shared {
		text += " Every call names its session: start with \"new\", then use the name that the reply gives."
	}
	return text
}

// languageNames returns the languages, capitalized and joined.
func (s *server) languageNames() string {
	var names []string
	for _, lang := range s.languages {
		names = append(names, strings.ToUpper(lang[:1])+lang[1:])
	}
	return text.JoinNames(names, "or", "code")
}

// remotesDescription says how sessions on other remotes are named, or returns "" if there are
// none.
func (s *server) remotesDescription() string {
	remotes := s.sessions.RemoteNames()
	if len(remotes) < 2 {
		return ""
	}
	remotes = remotes[1:]
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

func (s *server) replSchema() schema {
	properties := map[string]schema{
		"input":      {Type: "string", Description: "code, or the answer to an input request"},
		"timeout_ms": timeSchema("how long to wait for the code; default 45000"),
		"eof":        {Type: "boolean", Description: "end of file after this answer"},
	}
	var required []string
	if s.stdin == StdinDeny {
		required = []string{"input"}
	} else {
		properties["keys"] = schema{Type: "string", Description: "instead of input, for a program at the terminal: text, <Enter>, <Down>, <C-c>, <lt> for <"}
	}
	if len(s.languages) > 1 {
		properties["lang"] = schema{Type: "string", Enum: s.languages, Description: "of a new session; default " + s.languages[0]}
	}
	return s.withSession(`an independent session, made on first use; "new" makes one`+s.remotesDescription(), properties, required...)
}

func (s *server) outputSchema() schema {
	return s.withSession("", map[string]schema{
		"wait_ms": timeSchema("how long to wait; default 45000, 0 does not wait"),
		"until":   {Type: "string", Description: "return at a new line that matches this regular expression"},
		"grep":    {Type: "string", Description: "show lines that match this regular expression (RE2)"},
		"lines":   {Type: "string", Description: `lines to show: "120-180", "120-", "-50" for the last 50`},
		"screen":  {Type: "boolean", Description: "show the terminal's screen"},
	})
}

func (s *server) resetSchema() schema {
	return s.withSession("", map[string]schema{"close": {Type: "boolean", Description: "end the session for good"}})
}

func (s *server) sessionSchema() schema {
	return s.withSession("", map[string]schema{})
}

// withSession adds the argument session to the arguments of a tool. Only one tool describes it,
// because models pay for each description.
func (s *server) withSession(description string, properties map[string]schema, required ...string) schema {
	if s.client.Shared {
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
