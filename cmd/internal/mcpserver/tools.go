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
)

// maxResultChars is what clients that keep large results from the model are told
// to let through. Text is bounded well below it; pictures are not text.
const maxResultChars = 100_000

// A handler answers a call of one tool. It returns nil when ctx ended: then
// nobody waits for an answer.
type handler func(ctx context.Context, r *request, arguments json.RawMessage) *mcp.CallToolResult

// addTools declares the tools. Descriptions are for a model, and each is read on
// every request: they teach what cannot be seen from a reply, and no more.
func (s *server) addTools(to *mcp.Server) {
	no := false
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	stops := &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no, IdempotentHint: true}
	resets := &mcp.ToolAnnotations{OpenWorldHint: &no}

	names := make([]string, 0, 5)
	add := func(name, title, description string, hints *mcp.ToolAnnotations, schema schema, h handler) {
		names = append(names, name)
		to.AddTool(&mcp.Tool{
			Name:        name,
			Title:       title,
			Description: description,
			Annotations: hints,
			InputSchema: schema,
			Meta:        mcp.Meta{"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": maxResultChars},
		}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if c, ok := s.transport.callOf(ctx, req); ok {
				r := &request{call: c, sdk: req, beat: newHeartbeat(c.token != nil)}
				defer r.begun()
				if result := h(ctx, r, req.Params.Arguments); result != nil {
					s.sayIgnored(r, result)
					r.keepText(result)
					if r.manner().raw {
						result.Meta = nil
					}
					return result, nil
				}
			}
			return nil, errors.New("the call was given up") // and nobody is told
		})
	}

	add("repl", "Run code", s.replDescription(), nil, s.replSchema(), s.repl)
	add("repl_output", "Read output", outputDescription, reads, s.outputSchema(), s.output)
	add("repl_interrupt", "Interrupt", "Interrupt what a session runs, as Ctrl-C does. Its variables stay.", stops, s.sessionSchema(), s.interrupt)
	add("repl_reset", "Restart", "End a session's interpreter, whatever it does, and start a new one. Its variables are lost.", resets, s.resetSchema(), s.reset)
	add("repl_sessions", "List sessions", "List the sessions: name, language, state, age, memory. Or the variables of one: name, type, shape, size.", reads, object(map[string]schema{"session": {Type: "string", Description: "list its variables"}}), s.list)

	to.AddReceivingMiddleware(nameTools(names))
}

// nameTools lets a call of a tool that does not exist learn which do.
func nameTools(names []string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && !slices.Contains(names, p.Name) {
				return nil, &jsonrpc.Error{
					Code:    jsonrpc.CodeInvalidParams,
					Message: fmt.Sprintf("unknown tool %q: the tools are %s", p.Name, list(names, "and", "none")),
				}
			}
			return next(ctx, method, req)
		}
	}
}

func (s *server) replDescription() string {
	return "Run code in a persistent " + s.languageNames() + " session. Variables, imports and definitions stay for later calls. " +
		"Returns what the code printed, the value of its last expression, and plots as images.\n" +
		s.stdin.taught() + "\n" +
		"When the code takes longer than timeout_ms, the reply ends with [running …] and the code goes on: " +
		"call repl_output to wait for it, or repl_interrupt to stop it. No other input is taken until then.\n" +
		`Input "" waits for news and sends nothing. A leading \u0003 interrupts first, a leading \u0004 restarts first and loses all variables.`
}

const outputDescription = "Wait for the code that a session runs, and return its new output. " +
	"Or look into output that a reply left out, live or finished: grep for a regular expression, or lines by number."

func (s *server) instructions() string {
	return "Persistent " + s.languageNames() + " sessions: state stays between calls of repl. " +
		s.sessionInstructions()
}

func (s *server) sessionInstructions() string {
	if s.sessions.shared {
		return "Every call names its session: begin with \"new\", and go on with the name that the reply gives."
	}
	return "Sessions are independent; name one in session, or pass \"new\", to work beside another."
}

// languageNames is the languages as a person writes them.
func (s *server) languageNames() string {
	var names []string
	for _, lang := range s.sessions.languages {
		names = append(names, strings.ToUpper(lang[:1])+lang[1:])
	}
	return list(names, "or", "code")
}

// A schema is the part of JSON Schema that the tools need. Properties keep their
// order of names.
type schema struct {
	Type        string            `json:"type,omitempty"`
	Description string            `json:"description,omitempty"`
	Enum        []string          `json:"enum,omitempty"`
	Properties  map[string]schema `json:"properties,omitzero"`
	Required    []string          `json:"required,omitempty"`
	Minimum     *int64            `json:"minimum,omitempty"`
	Maximum     *int64            `json:"maximum,omitempty"`
}

// object is the arguments of a tool. Properties are said also where there are none:
// there are services for models that refuse every tool for the lack. Others are not
// forbidden, because hosts add some of their own.
func object(properties map[string]schema, required ...string) schema {
	if properties == nil {
		properties = map[string]schema{}
	}
	return schema{Type: "object", Properties: properties, Required: required}
}

func (s *server) replSchema() schema {
	properties := map[string]schema{
		"input":      {Type: "string", Description: "code, or the answer to a wait"},
		"timeout_ms": timeSchema("how long to wait for the code; default 45000"),
		"eof":        {Type: "boolean", Description: "end of file after this answer"},
	}
	if len(s.sessions.languages) > 1 {
		properties["lang"] = schema{Type: "string", Enum: s.sessions.languages, Description: "language of a new session"}
	}
	return s.withSession(`an independent session, made on first use; "new" makes one`, properties, "input")
}

func (s *server) outputSchema() schema {
	return s.withSession("its name", map[string]schema{
		"wait_ms": timeSchema("how long to wait for the code to end; default 45000, 0 does not wait"),
		"until":   {Type: "string", Description: "regular expression: return as soon as a new line of output matches"},
		"grep":    {Type: "string", Description: "regular expression (RE2): show only lines that match, with their numbers"},
		"lines":   {Type: "string", Description: `lines to show: "120-180", "120-", "-50" for the last 50`},
	})
}

func (s *server) resetSchema() schema {
	return s.withSession("its name", map[string]schema{"close": {Type: "boolean", Description: "end the session for good"}})
}

func (s *server) sessionSchema() schema {
	return s.withSession("its name", map[string]schema{})
}

// withSession is the arguments of a tool about a session.
func (s *server) withSession(description string, properties map[string]schema, required ...string) schema {
	if s.sessions.shared {
		required = append(required, "session")
	} else {
		description += "; default: the main one"
	}
	properties["session"] = schema{Type: "string", Description: description}
	return object(properties, required...)
}

func timeSchema(description string) schema {
	low, high := int64(0), maxTimeout.Milliseconds()
	return schema{Type: "integer", Minimum: &low, Maximum: &high, Description: description}
}
