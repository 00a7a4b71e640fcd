package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Options are how servers are used.
type Options struct {
	Servers []ServerConfig

	// Allow and Deny are patterns such as "github.*" and "github.search_issues". A tool that is
	// allowed is called without a question, and one that is denied is not there. A pattern with
	// a * allows no tool that its server marks as destructive.
	Allow, Deny []string

	// CallerOf tells whose a session is, by its name. Each caller has its own connection to each
	// server, and with it the server's state. Without it, and for "", all sessions share one.
	CallerOf func(session string) string

	Version string
	Logger  *slog.Logger
}

// A ServerSet is all servers of one program. Its methods may be used by any goroutine.
type ServerSet struct {
	options  Options
	ctx      context.Context // of all connections
	end      context.CancelFunc
	servers  []*server
	timeouts timeouts
	starts   sync.WaitGroup

	mu          sync.Mutex
	sessions    map[*supervisor.Session]bool // that have looked at a server
	callers     map[string]*ServerSet        // of each caller, if there are several
	closingSets sync.WaitGroup               // those of callers that are gone
}

// timeouts bound what a server may take: at its start, and to read a message.
type timeouts struct{ start, discover, write time.Duration }

// NewServerSet returns a Set. It starts nothing.
func NewServerSet(o Options) *ServerSet {
	s := &ServerSet{options: o, sessions: map[*supervisor.Session]bool{}, callers: map[string]*ServerSet{}, timeouts: timeouts{start: startTimeout, discover: discoverTimeout, write: writeTimeout}}
	s.ctx, s.end = context.WithCancel(context.Background())
	for _, c := range o.Servers {
		s.servers = append(s.servers, &server{ServerConfig: c, set: s, openCalls: map[string]*openCall{}})
	}
	return s
}

// Close ends all servers, side by side.
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

// forSession returns the Set of the caller whose session it is. It ends those of callers that are gone.
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

// addSession notes a session before it looks at a server, which may take long or come to nothing.
func (s *ServerSet) addSession(one *supervisor.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[one] = true
}

// isAbandoned reports whether all sessions that it has served are closed.
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

// Groups are the names by which code knows the servers.
func (s *ServerSet) Groups() (names []string) {
	for _, one := range s.servers {
		names = append(names, one.Group)
	}
	return names
}

// Functions are those that every session has from the beginning: one opens a server, and one
// searches in all of them.
func (s *ServerSet) Functions() []supervisor.Function {
	if len(s.servers) == 0 {
		return nil
	}
	groups := s.Groups()
	names, _ := json.Marshal(groups)
	return []supervisor.Function{{
		Name:   "_open",
		Doc:    "Starts a server of tools, if it does not run.",
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
			limit, given := args["limit"].(int64)
			if !given {
				limit = defaultResults
			}
			return s.forSession(supervisor.CallerOf(ctx).Session).searchTools(ctx, words, int(max(1, min(limit, maxResults))))
		},
	}}
}

// openServer starts a server and gives its tools to the session that calls.
func (s *ServerSet) openServer(ctx context.Context, group string) error {
	at := slices.IndexFunc(s.servers, func(one *server) bool { return one.Group == group })
	if at < 0 {
		return &supervisor.CallError{Name: "NameError", Message: fmt.Sprintf("there is no server %q", group)}
	}
	if _, err := s.servers[at].ensureConnected(ctx); err != nil {
		return err
	}
	if s.servers[at].hasNoTools() {
		return &supervisor.CallError{Name: "NameError", Message: fmt.Sprintf("the server %s has no tools that code may call%s", group, s.servers[at].omittedText())}
	}
	return s.setFunctionsOf(supervisor.CallerOf(ctx).Session)
}

// setFunctionsOf gives a session the tools that are known.
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

// refreshSessions gives all sessions the tools that are known, because they have changed.
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
			one.Notify(fmt.Sprintf("the tools of a server have changed, and cannot be called: %v", err))
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

// setTools keeps the tools of a server; s.mu is held. Those that code cannot have are left out.
func (s *server) setTools(tools []*mcp.Tool) {
	s.tools, s.omitted, s.toolsKnown = nil, nil, true
	slices.SortStableFunc(tools, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	seen, all := map[string]bool{}, 0
	for _, t := range tools {
		f := s.toolFunction(t)
		err := f.Check()
		size := len(f.Doc) + len(f.Params) + len(f.Returns)
		switch {
		case size > maxToolBytes:
			err = fmt.Errorf("its description and schemas have %d bytes: at most %d fit", size, maxToolBytes)
		case all+size > maxAllToolsBytes:
			err = fmt.Errorf("with it, the descriptions and schemas of the server have more than %d bytes", maxAllToolsBytes)
		case seen[t.Name]:
			err = errors.New("there are two of that name")
		case s.set.isDenied(s.Group + "." + t.Name):
			err = errors.New("--deny")
		}
		if seen[t.Name] = true; err != nil {
			s.omitted = append(s.omitted, fmt.Sprintf("%s (%v)", t.Name, err))
			continue
		}
		all += size
		s.tools = append(s.tools, t)
	}
}

// hasNoTools reports whether the server has no tools.
func (s *server) hasNoTools() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tools) == 0
}

// maxShownOmitted bounds the tools that are named as left out.
const maxShownOmitted = 5

// omittedText says which tools were left out.
func (s *server) omittedText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.omitted) == 0 {
		return ""
	}
	return ": left out are " + strings.Join(s.omitted[:min(len(s.omitted), maxShownOmitted)], ", ")
}

func (s *server) toolFunctions() (list []supervisor.Function) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tools {
		list = append(list, s.toolFunction(t))
	}
	return list
}

// toolFunction makes a function of a tool.
func (s *server) toolFunction(t *mcp.Tool) supervisor.Function {
	f := supervisor.Function{Group: s.Group, Name: t.Name, Doc: t.Description, Params: orderedSchema(t.InputSchema)}
	if _, ok := t.OutputSchema.(map[string]any); ok { // one that is no schema is no reason to lose the tool
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

// checkPermission returns an error if the call is not allowed: by the flags, by a right of the session, or
// by a person who is asked.
func (s *ServerSet) checkPermission(ctx context.Context, caller supervisor.Caller, args map[string]any, destructive bool) error {
	covers := func(pattern string) bool { return supervisor.MatchFunction(pattern, caller.Function, destructive) }
	if slices.ContainsFunc(s.options.Allow, covers) || caller.AskPermission(ctx, formatArguments(args), destructive) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &supervisor.CallError{Name: "PermissionError", Message: fmt.Sprintf(
		"%s is not allowed: a person refused it, or nobody could be asked. Only a person can allow it, such as with --allow %s at the start of repl", timeline.QuoteName(caller.Function), shellword.Quote(caller.Function))}
}

// isDenied reports whether --deny names a tool.
func (s *ServerSet) isDenied(function string) bool {
	return slices.ContainsFunc(s.options.Deny, func(pattern string) bool { return supervisor.MatchFunction(pattern, function, false) })
}

// formatArguments shows arguments to a person.
func formatArguments(args map[string]any) string {
	const most = 80
	var all []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		text, err := json.Marshal(args[name])
		if err != nil {
			text = []byte("?")
		}
		if len(text) > most {
			text = append([]byte(strings.ToValidUTF8(string(text[:most]), "")), "…"...)
		}
		all = append(all, timeline.QuoteName(name)+"="+timeline.EscapeInvisible(string(text)))
	}
	return strings.Join(all, ", ")
}

// orderedSchema returns a schema as JSON whose properties begin with those that are required, in the
// order in which the server requires them.
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
