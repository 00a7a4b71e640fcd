package cmdflags

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// SandboxFlags holds the user's options for the sandbox of a session.
type SandboxFlags struct {
	Level, network, ask   string
	AcceptMechanism, home string
	writable, readable    pathListFlag
	acceptedPaths         pathListFlag
	hosts                 cmdkit.StringList
	IsRemote              bool // the session is on another machine
}

// A pathListFlag is the value of a flag that names a file or directory and may be repeated.
type pathListFlag []string

func (f *pathListFlag) String() string { return strings.Join(*f, string(filepath.ListSeparator)) }

func (f *pathListFlag) Set(dir string) error {
	*f = append(*f, dir)
	return nil
}

// AddFlags adds the flags that choose a sandbox and what it allows.
func (sf *SandboxFlags) AddFlags(f *flag.FlagSet) {
	f.StringVar(&sf.Level, "sandbox", string(sandbox.Full), "`LEVEL` what the session may write: nothing (read-only), its directory (workspace), or all that you may write (full, without a sandbox)")
	f.Var(&sf.writable, "allow-write", "`PATH` a directory or file that a sandboxed session may also write; may be repeated")
	f.Var(&sf.acceptedPaths, "confirm-write", "`REALPATH` confirm an --allow-write by its real path; required if programs outside the sandbox run or read files there, as in a directory of your PATH; may be repeated")
	f.Var(&sf.readable, "allow-read", "`PATH` a directory or file of your home directory or /tmp that a sandboxed session may also see; may be repeated")
	f.StringVar(&sf.home, "home-access", string(sandbox.HomeDocuments), "`documents|tools` the part of your home directory that a sandboxed session sees: toolchains and caches (tools), or also all names without a leading dot (documents)")
	f.StringVar(&sf.AcceptMechanism, "sandbox-fallback", "", "`MECHANISM` a weaker sandbox to use if the normal one is not available: landlock, on Linux without user namespaces")
	f.StringVar(&sf.ask, "ask-permission", askYes, "`yes|no` let a call wait while you are asked whether the sandbox should allow it; with no, or without a user to ask, it is refused at once")
	f.StringVar(&sf.network, "network", string(sandbox.NetworkList), "`NETWORK` what a sandboxed session may reach: the hosts of --allow-host and those you allow later (list), only its own loopback (none), or everything (full)")
	f.Var(&sf.hosts, "allow-host", "`HOST` a host that any program of a sandboxed session may reach, at any TCP port unless one is given: example.org, *.example.org, example.org:5432, an address, or packages for the registries of pip, uv, npm and R; may be repeated")
}

// UseAgentDefaults sets the default level of repl mcp: an agent gets a sandbox where sandboxes
// exist, unless the user asks for another level. If the system refuses the sandbox, the session
// does not start.
func (sf *SandboxFlags) UseAgentDefaults(f *flag.FlagSet) {
	sf.Level = string(DefaultAgentLevel)
	f.Lookup("sandbox").DefValue = "workspace on Linux, full elsewhere"
}

// BuildSandbox checks the options and returns the sandbox. It returns nil without one.
func (sf *SandboxFlags) BuildSandbox(f *flag.FlagSet) (*sandbox.Policy, error) {
	var settings userconfig.Settings // the file is about this machine
	if !sf.IsRemote {
		var err error
		if settings, err = UserConfigFile().Read(); err != nil {
			return nil, err
		}
	}
	sf.setDefaults(f, settings)
	level, err := sandbox.ParseLevel(sf.Level)
	if err != nil {
		return nil, cmdkit.UsageErrorf("%s: %v", sf.valueOrigin(f, "sandbox"), err)
	}
	if level == sandbox.Full {
		if len(sf.writable) > 0 || len(sf.acceptedPaths) > 0 || len(sf.readable) > 0 || len(sf.hosts) > 0 || cmdkit.IsFlagSet(f, "home-access") || cmdkit.IsFlagSet(f, "network") || cmdkit.IsFlagSet(f, "ask-permission") || cmdkit.IsFlagSet(f, "sandbox-fallback") {
			return nil, cmdkit.UsageErrorf("--allow-write, --confirm-write, --allow-read, --home-access, --network, --allow-host, --ask-permission and --sandbox-fallback need a sandbox; add --sandbox workspace")
		}
		return nil, nil
	}
	if sf.ask != askYes && sf.ask != askNo {
		return nil, cmdkit.UsageErrorf("%s %s: use yes or no", sf.valueOrigin(f, "ask-permission"), sf.ask)
	}
	accept, err := sandbox.ParseMechanism(sf.AcceptMechanism)
	if err != nil {
		return nil, cmdkit.UsageErrorf("%s: %v", sf.valueOrigin(f, "sandbox-fallback"), err)
	}
	if h := sandbox.HomeAccess(sf.home); h != sandbox.HomeDocuments && h != sandbox.HomeTools {
		return nil, cmdkit.UsageErrorf("%s %s: use documents or tools", sf.valueOrigin(f, "home-access"), sf.home)
	}
	s := &sandbox.Policy{Level: level, AcceptMechanism: accept, Network: sandbox.NetworkAccess(sf.network), Hosts: sf.hosts, AskUser: sf.ask == askYes, Home: sandbox.HomeAccess(sf.home)}
	if s.Network == sandbox.NetworkList || !cmdkit.IsFlagSet(f, "network") {
		s.Hosts = append(slices.Clone(settings.AllowHost), sf.hosts...)
	}
	if len(sf.hosts) > 0 && !cmdkit.IsFlagSet(f, "network") {
		s.Network = sandbox.NetworkList
	}
	hideUserConfig(s)
	if s.Writable, err = sf.collectPaths("allow-write", settings.Writable, sf.writable); err != nil {
		return nil, err
	}
	if s.AcceptPaths, err = sf.collectPaths("confirm-write", settings.AcceptPaths, sf.acceptedPaths); err != nil {
		return nil, err
	}
	if s.Readable, err = sf.collectPaths("allow-read", settings.Readable, sf.readable); err != nil {
		return nil, err
	}
	if !slices.Contains([]sandbox.NetworkAccess{sandbox.NetworkNone, sandbox.NetworkList, sandbox.NetworkFull}, s.Network) {
		return nil, cmdkit.UsageErrorf("%s %s: use none, list or full", sf.valueOrigin(f, "network"), sf.network)
	}
	if err := s.Validate(); err != nil {
		return nil, cmdkit.UsageErrorf("%s: %s", sf.valueOrigin(f, "allow-host"), strings.TrimPrefix(err.Error(), "sandbox: "))
	}
	return s, nil
}

// collectPaths returns the files and directories that the user's file and a flag name.
func (sf *SandboxFlags) collectPaths(name string, saved, flagPaths []string) (all []string, err error) {
	for _, path := range saved {
		if !isDirOrFile(path) {
			return nil, cmdkit.UsageErrorf("%s in %s: %s is neither a directory nor a regular file", name, UserConfigFile(), path)
		}
		all = append(all, path)
	}
	for _, path := range flagPaths {
		if sf.IsRemote {
			err = cmdkit.RequireAbsolute("--"+name, path)
		} else if isDirOrFile(path) {
			path, err = filepath.Abs(path)
		} else {
			err = cmdkit.UsageErrorf("--%s %s: neither a directory nor a regular file", name, path)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, path)
	}
	return all, nil
}

// isDirOrFile reports whether a path is a directory or a regular file.
func isDirOrFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && (i.IsDir() || i.Mode().IsRegular())
}

// RemoteSandbox returns the sandbox for additional remotes. It uses neither local directories nor
// the user's file, which is about this machine. Call it before BuildSandbox.
func (sf SandboxFlags) RemoteSandbox(f *flag.FlagSet) (*sandbox.Policy, error) {
	sf.IsRemote, sf.writable, sf.acceptedPaths, sf.readable = true, nil, nil, nil
	return sf.BuildSandbox(f)
}

// These are the values of --ask-permission.
const askYes, askNo = "yes", "no"

// setDefaults replaces flags that were not given by the settings of the user's file.
func (sf *SandboxFlags) setDefaults(f *flag.FlagSet, s userconfig.Settings) {
	for name, to := range map[string]struct {
		value *string
		kept  string
	}{"sandbox": {&sf.Level, s.Sandbox}, "network": {&sf.network, s.Network}, "home-access": {&sf.home, s.Home}, "ask-permission": {&sf.ask, s.Ask}, "sandbox-fallback": {&sf.AcceptMechanism, s.Accept}} {
		if to.kept != "" && !cmdkit.IsFlagSet(f, name) {
			*to.value = to.kept
		}
	}
}

// valueOrigin returns where the value of a flag comes from.
func (sf *SandboxFlags) valueOrigin(f *flag.FlagSet, name string) string {
	if cmdkit.IsFlagSet(f, name) {
		return "--" + name
	}
	return name + " in " + string(UserConfigFile())
}

// SettingsEnv is an environment variable. Its value NoSettings makes this program ignore the user's
// sandbox.toml.
const SettingsEnv, NoSettings = "TURNSTONE_SANDBOX_SETTINGS", "none"

// UserConfigFile returns the user's sandbox.toml, or "" if it is ignored.
func UserConfigFile() userconfig.SandboxFile {
	if os.Getenv(SettingsEnv) == NoSettings {
		return ""
	}
	return userconfig.DefaultSandboxFile(os.Getenv)
}

// hideUserConfig hides the directory of the user's file, which decides what later sessions may do.
// All sandboxes hide the default directory, so this is needed only for another one.
func hideUserConfig(s *sandbox.Policy) {
	home, _ := os.UserHomeDir()
	file := userconfig.DefaultSandboxFile(os.Getenv)
	dir := filepath.Dir(string(file))
	if file != "" && !slices.Contains(sandbox.DefaultHidden(home), dir) && !slices.Contains(s.Hidden, dir) {
		s.Hidden = append(s.Hidden, dir)
	}
}

// SetSandboxParams adds a sandbox to a request to a daemon.
func SetSandboxParams(s *sandbox.Policy, p *protocol.CreateParams) {
	if s != nil {
		p.Sandbox, p.Writable, p.Network, p.Hosts, p.AskUser = string(s.Level), s.Writable, string(s.Network), s.Hosts, s.AskUser
		p.Protected, p.Accept, p.Home, p.Readable = s.Protected, string(s.AcceptMechanism), string(s.Home), s.Readable
		p.Accepted = s.AcceptPaths
	}
}

// loginVariables name the user's display, key agent, credentials and message bus. Their values
// differ between logins.
var loginVariables = []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "KRB5CCNAME", "DBUS_SESSION_BUS_ADDRESS"}

// LoginEnv returns the login variables that a session without a sandbox takes over from its
// creator. The daemon has those of the login that started it, which may have ended.
func LoginEnv(s *sandbox.Policy) map[string]string {
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

// SandboxFromParams returns the sandbox that a client of the daemon requests. It returns nil if the
// client requests none.
func SandboxFromParams(p protocol.CreateParams) *sandbox.Policy {
	if p.Sandbox == "" {
		return nil
	}
	network := sandbox.NetworkAccess(p.Network)
	if network == "" {
		network = sandbox.NetworkNone
	}
	s := &sandbox.Policy{Level: sandbox.Level(p.Sandbox), Writable: p.Writable, Network: network, Hosts: p.Hosts, AskUser: p.AskUser, Protected: p.Protected, AcceptMechanism: sandbox.Mechanism(p.Accept), Home: sandbox.HomeAccess(p.Home), Readable: p.Readable, AcceptPaths: p.Accepted}
	if s.Confines() {
		hideUserConfig(s)
	}
	return s
}

// RequireSandbox returns an error if a session has another sandbox than the user asks for.
func RequireSandbox(s *sandbox.Policy, now session.Info) error {
	if s == nil || now.Sandbox == s.String() {
		return nil
	}
	has := now.Sandbox
	if has == "" {
		has = string(sandbox.Full)
	}
	return fmt.Errorf("session %s is open with the sandbox %s, not %s; close it, use another name, or request that sandbox with --sandbox", now.Name, has, s)
}

// TrySandboxIn starts and ends a program in a sandbox, in a directory. It returns the notices that the
// user of such a session would get. The error names the step that failed. A start takes ProbeTimeout at
// most.
func TrySandboxIn(ctx context.Context, policy *sandbox.Policy, dir string) (lines []string, err error) {
	state, err := os.MkdirTemp("", "repl-sandbox-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	sup, err := supervisor.New(&supervisor.Options{Dir: filepath.Join(state, "sessions"), StartTimeout: ProbeTimeout})
	if err != nil {
		return nil, err
	}
	defer sup.Close()
	return sup.TrySandbox(ctx, policy, dir)
}

// TrySandboxHere calls TrySandboxIn with a default sandbox in a new directory. It tests whether
// sessions can have a sandbox on this system, because each system has its own settings that forbid
// it.
func TrySandboxHere(ctx context.Context, accept sandbox.Mechanism) ([]string, error) {
	dir, err := os.MkdirTemp("", "repl-try-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return TrySandboxIn(ctx, &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, AcceptMechanism: accept, NoNotice: true}, dir)
}

// ProbeTimeout bounds a trial of a sandbox, and each check of doctor.
const ProbeTimeout = 10 * time.Second
