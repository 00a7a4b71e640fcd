package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/kept"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A confinement has the user's options for the sandbox of a session.
type confinement struct {
	level, network, ask string
	accept, home        string
	writable, readable  directories
	accepted            directories
	hosts               names
	away                bool // the session is not on this machine
}

// directories is the value of a flag that may be given several times.
type directories []string

func (d *directories) String() string { return strings.Join(*d, string(filepath.ListSeparator)) }

func (d *directories) Set(dir string) error {
	*d = append(*d, dir)
	return nil
}

func (c *confinement) define(f *flag.FlagSet) {
	f.StringVar(&c.level, "sandbox", string(workers.Full), "`LEVEL` what the session may write: read-only, workspace (its directory), or full, which is no sandbox")
	f.Var(&c.writable, "writable", "`PATH` one more directory or file that a session with a sandbox may write")
	f.Var(&c.accepted, "accept", "`REALPATH` the real path of a --writable, repeated to confirm that programs outside the sandbox may run or read what is written there, such as in a directory of your PATH")
	f.Var(&c.readable, "readable", "`PATH` one more directory or file that a session with a sandbox sees, of your home directory or /tmp")
	f.StringVar(&c.home, "home", string(workers.HomeDocuments), "`documents|tools` what a session with a sandbox sees of your home directory: documents (names without a dot), toolchains and caches, or without the documents")
	f.StringVar(&c.accept, "sandbox-accept", "", "`MECHANISM` a weaker sandbox to take where the usual one cannot be had: landlock, on Linux without user namespaces")
	f.StringVar(&c.ask, "ask", askYes, "`yes|no` hold what a sandbox refuses and a person could allow, and ask; without anybody to ask it is refused at once")
	f.StringVar(&c.network, "network", string(workers.NetworkList), "`NETWORK` of a session with a sandbox: list (the hosts of --allow-host, and those that a person allows), none but its own loopback, or full")
	f.Var(&c.hosts, "allow-host", "`HOST` a host of the network that a session with a sandbox may reach, by any program and at any TCP port: example.org, *.example.org, example.org:5432, an address, or packages for the registries of pip, uv, npm and R")
}

// ofAgents makes the level that of repl mcp: where there are sandboxes, an agent gets one, unless
// the user asks for another. A system that refuses it refuses the session.
func (c *confinement) ofAgents(f *flag.FlagSet) {
	c.level = string(agentsLevel)
	f.Lookup("sandbox").DefValue = "workspace on Linux, full elsewhere"
}

// sandbox checks the options. It returns nil without a sandbox.
func (c *confinement) sandbox(f *flag.FlagSet) (*workers.Sandbox, error) {
	var settings kept.Settings // those of the file are about this machine
	if !c.away {
		var err error
		if settings, err = keptFile().Read(); err != nil {
			return nil, err
		}
	}
	c.setDefaults(f, settings)
	level, err := workers.ParseSandboxLevel(c.level)
	if err != nil {
		return nil, misuse("%s: %v", c.origin(f, "sandbox"), err)
	}
	if level == workers.Full {
		if len(c.writable) > 0 || len(c.accepted) > 0 || len(c.readable) > 0 || len(c.hosts) > 0 || isSet(f, "home") || isSet(f, "network") || isSet(f, "ask") || isSet(f, "sandbox-accept") {
			return nil, misuse("--writable, --accept, --readable, --home, --network, --allow-host, --ask and --sandbox-accept are for sessions with a sandbox: add --sandbox workspace")
		}
		return nil, nil
	}
	if c.ask != askYes && c.ask != askNo {
		return nil, misuse("%s %s: use yes or no", c.origin(f, "ask"), c.ask)
	}
	accept, err := workers.ParseSandboxMechanism(c.accept)
	if err != nil {
		return nil, misuse("%s: %v", c.origin(f, "sandbox-accept"), err)
	}
	if h := workers.HomeAccess(c.home); h != workers.HomeDocuments && h != workers.HomeTools {
		return nil, misuse("%s %s: use documents or tools", c.origin(f, "home"), c.home)
	}
	s := &workers.Sandbox{Level: level, AcceptMechanism: accept, Network: workers.NetworkAccess(c.network), Hosts: c.hosts, AskUser: c.ask == askYes, Home: workers.HomeAccess(c.home)}
	if s.Network == workers.NetworkList || !isSet(f, "network") {
		s.Hosts = append(slices.Clone(settings.AllowHost), c.hosts...)
	}
	if len(c.hosts) > 0 && !isSet(f, "network") {
		s.Network = workers.NetworkList
	}
	hideKept(s)
	if s.Writable, err = c.paths("writable", settings.Writable, c.writable); err != nil {
		return nil, err
	}
	if s.AcceptPaths, err = c.paths("accept", settings.AcceptPaths, c.accepted); err != nil {
		return nil, err
	}
	if s.Readable, err = c.paths("readable", settings.Readable, c.readable); err != nil {
		return nil, err
	}
	if !slices.Contains([]workers.NetworkAccess{workers.NetworkNone, workers.NetworkList, workers.NetworkFull}, s.Network) {
		return nil, misuse("%s %s: use none, list or full", c.origin(f, "network"), c.network)
	}
	if err := s.Validate(); err != nil {
		return nil, misuse("%s: %s", c.origin(f, "allow-host"), strings.TrimPrefix(err.Error(), "workers: "))
	}
	return s, nil
}

// paths returns the files and directories that the user's file and a flag name.
func (c *confinement) paths(name string, kept, given []string) (all []string, err error) {
	for _, path := range kept {
		if !isPlain(path) {
			return nil, misuse("%s in %s: %s is neither a directory nor a regular file", name, keptFile(), path)
		}
		all = append(all, path)
	}
	for _, path := range given {
		if c.away {
			err = absoluteThere("--"+name, path)
		} else if isPlain(path) {
			path, err = filepath.Abs(path)
		} else {
			err = misuse("--%s %s: neither a directory nor a regular file", name, path)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, path)
	}
	return all, nil
}

// isPlain reports whether a path is a directory or a regular file.
func isPlain(path string) bool {
	i, err := os.Stat(path)
	return err == nil && (i.IsDir() || i.Mode().IsRegular())
}

// elsewhere is the sandbox at other places than the usual one: neither its directories nor the
// user's file, which is about this machine, say anything there. It comes before sandbox.
func (c confinement) elsewhere(f *flag.FlagSet) (*workers.Sandbox, error) {
	c.away, c.writable, c.accepted, c.readable = true, nil, nil, nil
	return c.sandbox(f)
}

// The values of --ask.
const askYes, askNo = "yes", "no"

// setDefaults takes what the user's file says in place of flags that were not given.
func (c *confinement) setDefaults(f *flag.FlagSet, s kept.Settings) {
	for name, to := range map[string]struct {
		value *string
		kept  string
	}{"sandbox": {&c.level, s.Sandbox}, "network": {&c.network, s.Network}, "home": {&c.home, s.Home}, "ask": {&c.ask, s.Ask}, "sandbox-accept": {&c.accept, s.Accept}} {
		if to.kept != "" && !isSet(f, name) {
			*to.value = to.kept
		}
	}
}

// origin names where the value of a flag is from.
func (c *confinement) origin(f *flag.FlagSet, name string) string {
	if isSet(f, name) {
		return "--" + name
	}
	return name + " in " + string(keptFile())
}

// settingsVariable set to noSettings has a server of ours do without the user's file about sandboxes.
const settingsVariable, noSettings = "TURNSTONE_SANDBOX_SETTINGS", "none"

// keptFile is the user's file about sandboxes; "" where it is not heeded.
func keptFile() kept.File {
	if os.Getenv(settingsVariable) == noSettings {
		return ""
	}
	return kept.Default(os.Getenv)
}

// hideKept hides the directory of the user's file, which says what later sessions may do, where
// it is not at its usual place, which all sandboxes hide.
func hideKept(s *workers.Sandbox) {
	home, _ := os.UserHomeDir()
	file := kept.Default(os.Getenv)
	dir := filepath.Dir(string(file))
	if file != "" && !slices.Contains(workers.DefaultHidden(home), dir) && !slices.Contains(s.Hidden, dir) {
		s.Hidden = append(s.Hidden, dir)
	}
}

// asked writes a sandbox into a request to a daemon.
func asked(s *workers.Sandbox, p *client.CreateParams) {
	if s != nil {
		p.Sandbox, p.Writable, p.Network, p.Hosts, p.AskUser = string(s.Level), s.Writable, string(s.Network), s.Hosts, s.AskUser
		p.Protected, p.Accept, p.Home, p.Readable = s.Protected, string(s.AcceptMechanism), string(s.Home), s.Readable
		p.Accepted = s.AcceptPaths
	}
}

// loginVariables lead to the person's screen, keys and buses, and differ from login to login.
var loginVariables = []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "KRB5CCNAME", "DBUS_SESSION_BUS_ADDRESS"}

// ofLogin returns what a session without a sandbox has of the environment of its creator. A daemon has that of
// the login that has started it, which may be over.
func ofLogin(s *workers.Sandbox) map[string]string {
	if s.Confines() {
		return nil
	}
	env := make(map[string]string)
	for _, name := range loginVariables {
		if value := os.Getenv(name); value != "" && utf8.ValidString(value) {
			env[name] = value
		}
	}
	return env
}

// sandboxOf returns the sandbox that a client of the daemon asks for.
func sandboxOf(p client.CreateParams) *workers.Sandbox {
	if p.Sandbox == "" {
		return nil
	}
	network := workers.NetworkAccess(p.Network)
	if network == "" {
		network = workers.NetworkNone
	}
	s := &workers.Sandbox{Level: workers.SandboxLevel(p.Sandbox), Writable: p.Writable, Network: network, Hosts: p.Hosts, AskUser: p.AskUser, Protected: p.Protected, AcceptMechanism: workers.SandboxMechanism(p.Accept), Home: workers.HomeAccess(p.Home), Readable: p.Readable, AcceptPaths: p.Accepted}
	if s.Confines() {
		hideKept(s)
	}
	return s
}

// mustHold refuses a session that is confined in another way than the user asks for.
func mustHold(s *workers.Sandbox, now session.Info) error {
	if s == nil || now.Sandbox == s.String() {
		return nil
	}
	has := now.Sandbox
	if has == "" {
		has = string(workers.Full)
	}
	return fmt.Errorf("session %s is open with the sandbox %s, not %s: close it, use another name, or ask for that one with --sandbox", now.Name, has, s)
}

// showSandbox shows what a session may do, what it was refused and what it was given. Without
// a session it shows what a sandbox would hold here, or why there is none.
func showSandbox(f *flag.FlagSet) action {
	try := trySandbox(f)
	r := newDaemonCommand(f)
	return func(s streams, args []string) (int, error) {
		given, err := parseAnywhere(f, args)
		if err != nil {
			return statusUsage, err
		}
		if len(given) == 0 {
			if isSet(f, "socket") || r.json {
				return statusUsage, misuse("--socket and --json are for a session: name it")
			}
			return try(s)
		}
		for _, name := range []string{"sandbox", "sandbox-accept", "writable", "accept", "readable", "home", "network", "allow-host", "ask", "dir"} {
			if isSet(f, name) {
				return statusUsage, misuse("--%s is for a new session; repl allow %s --write PATH or --read PATH gives more to one that is there", name, given[0])
			}
		}
		if _, err := r.parse(args, "SESSION"); err != nil {
			return statusUsage, err
		}
		return r.use(func(ctx context.Context, c *client.Client) (int, error) {
			account, err := accountOf(ctx, c, given[0])
			if err != nil {
				return statusFailed, err
			}
			if r.json {
				return statusDone, printJSON(s.out, account)
			}
			account.print(s.out)
			return statusDone, nil
		})
	}
}

// An account is what a session may do, and what became of it.
type account struct {
	Session string                 `json:"session"`
	Sandbox string                 `json:"sandbox"` // full without one
	Dir     string                 `json:"dir"`     // its directory, which is the workspace
	Given   []session.Grant        `json:"given"`
	Reached []session.Destination  `json:"reached"`
	Shown   session.Visibility     `json:"shown"`
	Asks    *session.InputRequest  `json:"asks,omitempty"`
	Denied  []session.AccessDenied `json:"denied"` // each once, at most maxShownDenials
	More    int                    `json:"more_denied,omitempty"`
}

// maxShownDenials bounds the denials that are listed.
const maxShownDenials = 100

func accountOf(ctx context.Context, c *client.Client, name string) (account, error) {
	now, err := c.GetSession(ctx, name)
	if err != nil {
		return account{}, err
	}
	a := account{Session: now.Name, Sandbox: now.Confinement(), Dir: now.Dir, Given: now.Grants, Denied: []session.AccessDenied{}}
	if a.Given == nil {
		a.Given = []session.Grant{}
	}
	if a.Reached, err = c.Session(name).Destinations(ctx); err != nil {
		return a, err
	}
	if a.Shown, err = c.Session(name).Visibility(ctx); err != nil {
		return a, err
	}
	if now.InputRequest != nil && now.InputRequest.Permission != nil {
		a.Asks = now.InputRequest
	}
	if now.LastSeq == 0 {
		return a, nil
	}
	for e, err := range c.Session(name).Events(ctx, 0) {
		if err != nil {
			return a, err
		}
		d, refused := e.Body.(timeline.AccessDenied)
		switch {
		case !refused || slices.Contains(a.Denied, d):
		case len(a.Denied) == maxShownDenials:
			a.More++
		default:
			a.Denied = append(a.Denied, d)
		}
		if e.Seq >= now.LastSeq {
			break
		}
	}
	return a, nil
}

func (a account) print(w io.Writer) {
	fmt.Fprintf(w, "sandbox %s\ndirectory: %s\n", a.Sandbox, timeline.QuoteName(a.Dir))
	for _, g := range a.Given {
		fmt.Fprintf(w, "given: %s\n", timeline.AccessGranted{Read: g.Read, Write: g.Write, Host: g.Host, Call: g.Call})
	}
	printShown(w, a.Shown)
	for _, r := range a.Reached {
		if r.Connections > 0 {
			fmt.Fprintf(w, "reached: %s (connections: %d, sent %s, received %s)\n", r.Address, r.Connections, timeline.FormatBytes(r.Sent), timeline.FormatBytes(r.Received))
		}
	}
	for _, d := range a.Denied {
		fmt.Fprintf(w, "refused: %s\n", d)
	}
	if a.More > 0 {
		fmt.Fprintf(w, "refused: %d more\n", a.More)
	}
	if a.Asks != nil {
		fmt.Fprintf(w, "asks: %s (%s)\n", a.Asks.Permission.AccessDenied, allowCommand(a.Session, a.Asks.Permission.Grant))
	}
}

// maxInLine bounds the names in a line about what is shown; --json has them all.
const maxInLine = 12

// printShown has a line for each reason for which a session sees something of the home directory.
func printShown(w io.Writer, s session.Visibility) {
	var reasons []string
	by := map[string][]string{}
	for _, place := range s.Paths {
		if by[place.Reason] == nil {
			reasons = append(reasons, place.Reason)
		}
		name := place.Path
		if rest, ok := strings.CutPrefix(name, s.Home+string(filepath.Separator)); ok {
			name = rest
		}
		by[place.Reason] = append(by[place.Reason], timeline.QuoteName(name))
	}
	slices.Sort(reasons)
	for _, why := range reasons {
		fmt.Fprintf(w, "shown of %s (%s): %s\n", timeline.QuoteName(s.Home), why, bounded(by[why], 0))
	}
	if s.MorePaths > 0 {
		fmt.Fprintf(w, "shown of %s: %d more\n", timeline.QuoteName(s.Home), s.MorePaths)
	}
	if len(s.WithheldVariables) > 0 {
		fmt.Fprintf(w, "withheld variables: %s\n", bounded(s.WithheldVariables, s.MoreWithheld))
	}
}

// bounded joins the first names, and counts the others, of which there are more.
func bounded(names []string, more int) string {
	first := names[:min(len(names), maxInLine)]
	text := strings.Join(first, ", ")
	if more += len(names) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// trySandbox shows what a sandbox would hold here, or why there is none.
func trySandbox(f *flag.FlagSet) func(s streams) (int, error) {
	var c confinement
	c.define(f)
	f.Lookup("sandbox").DefValue = string(workers.Workspace)
	c.level = string(workers.Workspace)
	dir := f.String("dir", "", "`DIR` the working directory of the session")
	return func(s streams) (int, error) {
		where := choice{dir: *dir}
		if err := where.resolvePaths(); err != nil {
			return statusUsage, err
		}
		sandbox, err := c.sandbox(f)
		if err != nil {
			return statusUsage, err
		}
		if sandbox == nil {
			fmt.Fprintln(s.out, "sandbox full: a session has all rights of its user")
			return statusDone, nil
		}
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		told, err := tryIn(ctx, sandbox, where.dir)
		if err != nil {
			return statusFailed, err
		}
		for _, line := range told {
			fmt.Fprintln(s.out, line)
		}
		return statusDone, nil
	}
}

// tryIn starts a program under a sandbox, in a directory.
func tryIn(ctx context.Context, sandbox *workers.Sandbox, dir string) (told []string, err error) {
	state, err := os.MkdirTemp("", "repl-sandbox-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	sup, err := supervisor.New(&supervisor.Options{Dir: filepath.Join(state, "sessions"), StartTimeout: probeTime})
	if err != nil {
		return nil, err
	}
	defer sup.Close()
	return sup.TrySandbox(ctx, sandbox, dir)
}

// sandboxHere tries whether a session can be confined on this system: each has its own
// switches that forbid it.
func sandboxHere(ctx context.Context, accept workers.SandboxMechanism) ([]string, error) {
	dir, err := os.MkdirTemp("", "repl-try-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return tryIn(ctx, &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone, AcceptMechanism: accept, NoNotice: true}, dir)
}

func examineSandbox(ctx context.Context) fact {
	f := fact{Name: "sandbox"}
	if _, err := sandboxHere(ctx, ""); err != nil {
		f.Detail = err.Error()
		if told, err := sandboxHere(ctx, acceptable); err == nil && len(told) > 0 && acceptable != "" {
			f.Detail += "; with --sandbox-accept " + string(acceptable) + ": " + told[0]
		}
		return f
	}
	f.Available, f.Detail = true, "sessions can be confined, as those of repl mcp are"
	return f
}
