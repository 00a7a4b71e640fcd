package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// Options configure a ServerSet: the servers, and which of their tools code may call.
type Options struct {
	Servers []ServerConfig

	// Allow and Deny are patterns such as "github.*" and "github.search_issues". An allowed tool
	// is called without asking the user; a denied tool does not exist for code. A pattern with a
	// * never allows a tool that its server marks as destructive.
	Allow, Deny []string

	// CallerOf returns the caller that owns a session, by the session's name. Each caller has its
	// own connection to each server, and so its own server state. If CallerOf is nil or returns
	// "", sessions share one connection.
	CallerOf func(session string) string

	Version string
	Logger  *slog.Logger
}

// A ServerSet holds all servers of a program. Its methods may be called concurrently.
type ServerSet struct {
	options  Options
	ctx      context.Context // of all connections
	end      context.CancelFunc
	servers  []*toolServer
	timeouts timeouts
	starts   sync.WaitGroup

	mu          sync.Mutex
	sessions    map[*supervisor.Session]bool // the sessions that have used a server
	callers     map[string]*ServerSet        // by the key of the caller
	closingSets sync.WaitGroup               // sets of callers that have gone
}

// NewServerSet returns a ServerSet, without starting any server.
func NewServerSet(o Options) *ServerSet {
	s := &ServerSet{options: o, sessions: map[*supervisor.Session]bool{}, callers: map[string]*ServerSet{}, timeouts: timeouts{start: startTimeout, discover: discoverTimeout, write: writeTimeout}}
	s.ctx, s.end = context.WithCancel(context.Background())
	for _, c := range o.Servers {
		s.servers = append(s.servers, &toolServer{ServerConfig: c, set: s, openCalls: map[string]*openCall{}})
	}
	return s
}

// Close ends all servers, concurrently.
func (s *ServerSet) Close() {
	s.end()
	s.starts.Wait()
	var all sync.WaitGroup
	s.mu.Lock()
	for _, one := range s.callers {
		all.Go(one.Close)
	}
	s.mu.Unlock()
	for _, one := range s.servers {
		one.mu.Lock()
		live := one.current
		one.mu.Unlock()
		if live != nil {
			all.Go(live.close)
		}
	}
	all.Wait()
	s.closingSets.Wait()
}

// forSession returns the ServerSet of the caller that owns a session. It closes the sets of
// callers that have gone.
func (s *ServerSet) forSession(one *supervisor.Session) *ServerSet {
	if s.options.CallerOf == nil || one == nil {
		return s
	}
	key := s.options.CallerOf(one.Name())
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == "" || s.ctx.Err() != nil {
		return s
	}
	if found := s.callers[key]; found != nil {
		found.addSession(one)
		return found
	}
	for other, set := range s.callers {
		if set.isAbandoned() {
			delete(s.callers, other)
			s.closingSets.Go(set.Close)
		}
	}
	o := s.options
	o.CallerOf = nil
	found := NewServerSet(o)
	found.timeouts = s.timeouts
	found.addSession(one)
	s.callers[key] = found
	return found
}

// addSession records a session before it uses a server, because that may take long or fail.
func (s *ServerSet) addSession(one *supervisor.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[one] = true
}

// isAbandoned reports whether the set has served sessions, and all of them are closed.
func (s *ServerSet) isAbandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.sessions {
		if !one.IsClosed() {
			return false
		}
	}
	return len(s.sessions) > 0
}

// Groups returns the names of the servers in code.
func (s *ServerSet) Groups() (names []string) {
	for _, one := range s.servers {
		names = append(names, one.Group)
	}
	return names
}

// Functions returns the functions that every session has from the start: one opens a server, and
// one searches the tools of all servers.
func (s *ServerSet) Functions() []supervisor.Function {
	if len(s.servers) == 0 {
		return nil
	}
	groups := s.Groups()
	names, _ := json.Marshal(groups)
	return []supervisor.Function{{
		Name:   "_open",
		Doc:    "Starts a tool server unless it is running.",
		Params: json.RawMessage(`{"type":"object","properties":{"group":{"type":"string","enum":` + string(names) + `}},"required":["group"]}`),
		Call: func(ctx context.Context, args map[string]any) (any, error) {
			name, _ := args["group"].(string)
			return nil, s.forSession(supervisor.CallerOf(ctx).Session).openServer(ctx, name)
		},
	}, {
		Name: "search",
		Doc:  "Finds tools of the servers " + strings.Join(groups, ", ") + ", by words of their names and descriptions. They are in turnstone.tools: github.search_issues is from turnstone.tools import github.",
		Params: json.RawMessage(`{"type":"object","properties":{"words":{"type":"string","description":"\"\" lists tools of all servers"},` +
			`"limit":{"type":"integer","description":"results at most","default":10}},"required":["words"]}`),
		Returns: json.RawMessage(`{"type":"array","items":{"type":"string"}}`),
		Call: func(ctx context.Context, args map[string]any) (any, error) {
			words, _ := args["words"].(string)
			limit, ok := args["limit"].(int64)
			if !ok {
				limit = defaultResults
			}
			return s.forSession(supervisor.CallerOf(ctx).Session).searchTools(ctx, words, int(max(1, min(limit, maxResults))))
		},
	}}
}

// openServer starts a server, and gives its tools to the calling session.
func (s *ServerSet) openServer(ctx context.Context, group string) error {
	at := slices.IndexFunc(s.servers, func(one *toolServer) bool { return one.Group == group })
	if at < 0 {
		return &supervisor.CallError{Name: "NameError", Message: fmt.Sprintf("unknown server %q", group)}
	}
	if _, err := s.servers[at].ensureConnected(ctx); err != nil {
		return err
	}
	if s.servers[at].hasNoTools() {
		return &supervisor.CallError{Name: "NameError", Message: fmt.Sprintf("the server %s offers no tools that code may call%s", group, s.servers[at].omittedText())}
	}
	return s.setFunctionsOf(supervisor.CallerOf(ctx).Session)
}

// setFunctionsOf gives the known tools to a session.
func (s *ServerSet) setFunctionsOf(to *supervisor.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.sessions {
		if one.IsClosed() {
			delete(s.sessions, one)
		}
	}
	s.sessions[to] = true
	return to.SetFunctions(s.allFunctions()...)
}

// refreshSessions gives the changed tools to all sessions.
func (s *ServerSet) refreshSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	functions := s.allFunctions()
	for one := range s.sessions {
		if one.IsClosed() {
			delete(s.sessions, one)
			continue
		}
		if err := one.SetFunctions(functions...); err != nil {
			one.Notify(fmt.Sprintf("the tools of a server have changed and cannot be called: %v", err))
		}
	}
}

// allFunctions returns the functions of all servers whose tools are known.
func (s *ServerSet) allFunctions() []supervisor.Function {
	list := s.Functions()
	for _, one := range s.servers {
		list = append(list, one.toolFunctions()...)
	}
	return list
}

// setTools stores the tools of a server, without the ones that code cannot call. The caller holds
// s.mu.
func (s *toolServer) setTools(tools []*mcp.Tool) {
	s.tools, s.omitted, s.toolsKnown = nil, nil, true
	sort.SliceStable(tools, func(i, j int) bool { return tools[i].Name < tools[j].Name })
	seen, all := map[string]bool{}, 0
	for _, t := range tools {
		f := s.toolFunction(t)
		err := supervisor.CheckFunction(f)
		size := len(f.Doc) + len(f.Params) + len(f.Returns)
		switch {
		case size > maxToolBytes:
			err = fmt.Errorf("its description and schemas have %d bytes: at most %d are allowed", size, maxToolBytes)
		case all+size > maxAllToolsBytes:
			err = fmt.Errorf("the descriptions and schemas of the server exceed %d bytes", maxAllToolsBytes)
		case seen[t.Name]:
			err = errors.New("duplicate name")
		case s.set.isDenied(s.Group + "." + t.Name):
			err = errors.New("--deny-tool")
		}
		if seen[t.Name] = true; err != nil {
			s.omitted = append(s.omitted, fmt.Sprintf("%s (%v)", t.Name, err))
			continue
		}
		all += size
		s.tools = append(s.tools, t)
	}
}

func (s *toolServer) hasNoTools() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tools) == 0
}

// maxShownOmitted bounds the skipped tools that a message names.
const maxShownOmitted = 5

// omittedText names up to maxShownOmitted skipped tools, for the end of a message. It returns "" if
// no tool was skipped.
func (s *toolServer) omittedText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.omitted) == 0 {
		return ""
	}
	return "; skipped: " + strings.Join(s.omitted[:min(len(s.omitted), maxShownOmitted)], ", ")
}

func (s *toolServer) toolFunctions() (list []supervisor.Function) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tools {
		list = append(list, s.toolFunction(t))
	}
	return list
}

// toolFunction returns the function that calls a tool.
func (s *toolServer) toolFunction(t *mcp.Tool) supervisor.Function {
	f := supervisor.Function{Group: s.Group, Name: t.Name, Doc: t.Description, Params: orderedSchema(t.InputSchema)}
	if _, ok := t.OutputSchema.(map[string]any); ok { // a malformed schema does not exclude the tool
		f.Returns = orderedSchema(t.OutputSchema)
	}
	f.Call = func(ctx context.Context, args map[string]any) (any, error) {
		caller := supervisor.CallerOf(ctx)
		if err := s.set.checkPermission(ctx, caller, args, isDestructive(t)); err != nil {
			return nil, err
		}
		return s.callTool(ctx, caller, t.Name, args)
	}
	return f
}

// isDestructive reports whether the server marks a tool as destructive.
func isDestructive(t *mcp.Tool) bool {
	return t.Annotations != nil && !t.Annotations.ReadOnlyHint && t.Annotations.DestructiveHint != nil && *t.Annotations.DestructiveHint
}

// checkPermission returns an error if the call is not allowed: by the flags, by a grant of the
// session, or by the user when asked.
func (s *ServerSet) checkPermission(ctx context.Context, caller supervisor.Caller, args map[string]any, destructive bool) error {
	covers := func(pattern string) bool { return supervisor.MatchFunction(pattern, caller.Function, destructive) }
	if slices.ContainsFunc(s.options.Allow, covers) || caller.AskPermission(ctx, formatArguments(args), destructive) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &supervisor.CallError{Name: "PermissionError", Message: fmt.Sprintf(
		"%s is not allowed: the user refused it, or no user was available to answer. Only the user can allow it, such as with --allow-tool %s when starting repl", text.QuoteName(caller.Function), shellword.Quote(caller.Function))}
}

// isDenied reports whether --deny-tool names a tool.
func (s *ServerSet) isDenied(function string) bool {
	return slices.ContainsFunc(s.options.Deny, func(pattern string) bool { return supervisor.MatchFunction(pattern, function, false) })
}

// formatArguments formats arguments for the user.
func formatArguments(args map[string]any) string {
	const most = 80
	var all []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value, err := json.Marshal(args[name])
		if err != nil {
			value = []byte("?")
		}
		all = append(all, text.QuoteName(name)+"="+text.EscapeInvisible(text.ShortenBytes(string(value), most)))
	}
	return strings.Join(all, ", ")
}

// orderedSchema returns a schema as JSON. Required properties come first, in the order in which
// the server lists them.
func orderedSchema(schema any) json.RawMessage {
	fields, _ := schema.(map[string]any)
	properties, ok := fields["properties"].(map[string]any)
	if !ok {
		text, err := json.Marshal(schema)
		if err != nil || fields == nil {
			return nil
		}
		return text
	}
	names := slices.DeleteFunc(stringItems(fields["required"]), func(name string) bool { _, known := properties[name]; return !known })
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var text strings.Builder
	text.WriteString(`{"properties":{`)
	write := func(i int, name string, v any) {
		if i > 0 {
			text.WriteByte(',')
		}
		key, _ := json.Marshal(name)
		inner, err := json.Marshal(v)
		if err != nil {
			inner = []byte("true")
		}
		text.Write(key)
		text.WriteByte(':')
		text.Write(inner)
	}
	for i, name := range names {
		write(i, name, properties[name])
	}
	text.WriteByte('}')
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "properties" {
			write(1, name, fields[name])
		}
	}
	text.WriteByte('}')
	return json.RawMessage(text.String())
}
