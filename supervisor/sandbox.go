package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/workers"
)

// A confinement is the part of a start that a sandbox adds.
type confinement struct {
	sandbox  *host.Sandbox // nil without one
	env      []string      // changes of the worker's environment, before those of its Spec
	notices  []string      // for the user of the session; complete when the worker has started
	hidden   []string      // cannot be opened; complete then, too
	unshown  []string      // could be shown; likewise
	plan     *confine.Plan // likewise
	withheld []string      // variables that the worker does not have
	private  private       // likewise
	ended    func()        // is to be called once it is over; never nil
}

// maxNamed bounds the variables that a notice names.
const maxNamed = 8

// eachWay tries the ways in which a sandbox may be held until one holds it: those that are not the
// first only if their user accepts them, and where this system lacks what the one before needs.
func eachWay[T any](s *workers.Sandbox, try func(by workers.SandboxMechanism) (T, error)) (result T, err error) {
	if !s.Confines() {
		return try("")
	}
	for _, by := range confine.Ways(s.AcceptMechanism) {
		before := err
		if result, err = try(by); err == nil {
			return result, nil
		}
		if before != nil {
			return result, fmt.Errorf("%w; before that: %w", err, before)
		}
		if e, ok := errors.AsType[*host.StartError](err); !ok || !confine.Lacks(e.Step, e.Err) {
			return result, err
		}
	}
	return result, err
}

// confinementOf prepares the sandbox of a worker. own is the directory of its session, files
// that of the worker.
func confinementOf(spec *workers.Spec, o *Options, by workers.SandboxMechanism, own, files string) (c *confinement, err error) {
	c = &confinement{ended: func() {}}
	sandbox := spec.Sandbox
	if !sandbox.Confines() {
		return c, nil
	}
	if err := confine.Supported(by); err != nil {
		return c, err
	}
	state := filepath.Join(own, "sandbox")
	homes := filepath.Join(state, "home") // for files that tools would make in the home directory
	for _, dir := range []string{files, homes} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return c, err
		}
	}
	home := variable(o.Env, "HOME")
	policy := *sandbox
	policy.Layered = slices.Clone(policy.Layered)
	variables := workers.HomeVariables()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		dir := filepath.Join(home, variables[name])
		if set := variable(o.Env, name); set != "" {
			if !strings.HasPrefix(name, "XDG_") { // those are built like the home directory
				policy.Layered = append(policy.Layered, filepath.Clean(set))
			}
		} else if _, err := os.Stat(dir); home == "" || errors.Is(err, fs.ErrNotExist) {
			made := filepath.Join(homes, filepath.Base(dir))
			if err := os.MkdirAll(made, 0o700); err != nil {
				return c, err
			}
			c.env = append(c.env, name+"="+made)
		}
	}
	policy.Layered = slices.DeleteFunc(policy.Layered, func(d string) bool { return !filepath.IsAbs(d) })
	tmp := "/tmp"
	if by != "" { // it has no /tmp of its own
		tmp = filepath.Join(state, "tmp")
	}
	c.env = append(c.env, "TMPDIR="+tmp, "TMP", "TEMP")
	hidden := workers.SecretVariables(o.Env)
	c.env = append(c.env, hidden...)
	for _, entry := range workers.LoginVariables(o.Env) {
		name, _, _ := strings.Cut(entry, "=")
		c.env, hidden = append(c.env, entry), append(hidden, "the login in "+name)
	}
	c.withheld = hidden

	dir := spec.Dir
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return c, err
		}
	}
	if dir := variable(o.Env, "XDG_STATE_HOME"); filepath.IsAbs(dir) {
		// It has the daemon's key later, also if that is made while the session runs.
		_ = os.MkdirAll(filepath.Join(dir, "turnstone"), 0o700)
	}
	policy.Hidden = slices.Concat(policy.Hidden, o.alsoHidden(sandbox, dir))
	policy.Protected = append(slices.Clone(policy.Protected), daemonDirectories(o.Env)...)
	if cache := ownDirectory(o.Env, home, "XDG_CACHE_HOME", ".cache"); filepath.IsAbs(cache) { // it has code that sessions without a sandbox run
		policy.Protected = append(slices.Clone(policy.Protected), cache)
	}
	var replaced map[string]string
	if policy.Network == workers.NetworkList && by == "" {
		if replaced, err = namesFiles(state); err != nil {
			return c, err
		}
	}
	hasOutlet := policy.Network == workers.NetworkList && by == ""
	if policy.Network == workers.NetworkList && by == workers.Landlock { // it has no namespace in which names lead to us
		switch err := confine.MayConnect(); {
		case err == nil:
			hasOutlet = true
			c.env = append(c.env, proxyVariables()...)
		case len(policy.Hosts) > 0:
			return c, err
		}
	}
	directories := homeDirectories(o.Env)
	settings := filepath.Join(state, "settings") // the session sees its files read-only
	if by != "" {
		settings = homes // nothing can be mounted
	}
	if by != "" { // git stops at settings that it may not read, and does without a file that is not there
		c.env = append(c.env, "GIT_CONFIG_GLOBAL="+confine.SettingsIn(settings, ".gitconfig"))
	}
	origin := confine.Origin{
		Home: home, Path: variable(o.Env, "PATH"), Env: o.Env, Directories: directories, Dir: dir, Program: spec.Path,
		State: state, Sessions: o.Dir, Files: []string{files, homes},
		Replaced: replaced, Settings: settings, Account: accountHome(), Events: o.events,
	}
	if o.Leave != nil {
		var keep []string
		keep, c.ended = o.Leave(confine.Writes(sandbox, origin))
		policy.Protected = append(policy.Protected, keep...)
	}
	c.sandbox = &host.Sandbox{By: by, Outlet: hasOutlet, Plan: func() (*confine.Plan, error) {
		plan, notices, err := confine.NewPlan(&policy, origin)
		if err != nil {
			return nil, err
		}
		plan.Ask, plan.Outlet = sandbox.AskUser, hasOutlet
		plan.Disk, plan.Shared = spec.Limits.Disk, sharedLimit(spec.Limits)
		plan.Objects = objectsLimit(spec.Limits, o)
		lacks, err := plan.HeldBy(by, sandbox)
		if err != nil {
			return nil, err
		}
		c.plan, c.hidden, c.unshown = plan, plan.Hidden(), plan.Unshown()
		if by == "" {
			c.private = privateIn(plan, append(plan.Writable(), real(dir), real(o.Dir)))
		}
		if !policy.NoNotice {
			c.notices = append(c.notices, holds(plan.Writable(), &policy, tmp, hidden))
		}
		c.notices = append(append(c.notices, lacks...), notices...)
		return plan, nil
	}}
	return c, nil
}

// privateIn returns the directories of which a session has its own. but lists the machine's directories in
// them.
func privateIn(plan *confine.Plan, but []string) private {
	home, shown := plan.Home()
	p := private{dirs: plan.Private(), home: home, but: but, mayShow: plan.MayShow}
	if home != "" {
		p.dirs = append(p.dirs, home)
		p.but = slices.Concat(p.but, plan.Hidden(), plan.Unshown()) // those are explained themselves
		for _, place := range shown {
			p.but = append(p.but, string(place.Path))
		}
	}
	return p
}

// alsoHidden returns the directories of the user's services and of this project that a session in dir does
// not see, whatever it is to write.
func (o *Options) alsoHidden(sandbox *workers.Sandbox, dir string) (hidden []string) {
	home := variable(o.Env, "HOME")
	needed := []string{home, o.Dir}
	for _, own := range []string{ownDirectory(o.Env, home, "XDG_CONFIG_HOME", ".config"), ownDirectory(o.Env, home, "XDG_STATE_HOME", ".local/state")} {
		if mayHide(own, needed) {
			hidden = append(hidden, own)
		}
	}
	if run := variable(o.Env, "XDG_RUNTIME_DIR"); mayHide(run, append(needed, dir, sandbox.Workspace)) { // the user's services
		hidden = append(hidden, run)
	}
	return hidden
}

// ownDirectory returns the directory of this project in the one that a variable names, or in its
// usual place in a home directory.
func ownDirectory(env []string, home, name, usual string) string {
	return filepath.Join(cmp.Or(variable(env, name), filepath.Join(home, usual)), "turnstone")
}

// homeDirectories returns the directories that variables put in the place of some below the home
// directory, by the names of those.
func homeDirectories(env []string) map[string]string {
	moved := map[string]string{}
	for name, usual := range map[string]string{"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state"} {
		if dir := variable(env, name); filepath.IsAbs(dir) {
			moved[usual] = filepath.Clean(dir)
		}
	}
	return moved
}

// daemonDirectories returns the places in which a daemon listens, where a variable names them. A session that
// changes one of them in its workspace could take the daemon's place.
func daemonDirectories(env []string) (dirs []string) {
	if socket := variable(env, "REPL_SOCKET"); filepath.IsAbs(socket) {
		dirs = append(dirs, socket, socket+".lock")
	}
	for name, own := range map[string]string{"XDG_RUNTIME_DIR": "turnstone", "XDG_STATE_HOME": "turnstone", "TMPDIR": "turnstone-" + strconv.Itoa(os.Getuid())} {
		if dir := variable(env, name); filepath.IsAbs(dir) {
			dirs = append(dirs, filepath.Join(dir, own))
		}
	}
	return dirs
}

// mayHide reports whether a directory can be hidden as a whole: whether it is one that holds none
// of those that the session needs.
func mayHide(dir string, needed []string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	return !slices.ContainsFunc(needed, func(other string) bool {
		return other != "" && (within(real(other), real(dir)) || within(other, filepath.Clean(dir)))
	})
}

// real resolves the symbolic links of a path, if something is there.
func real(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	return path
}

// holds describes in one line what a session may do.
func holds(writable []string, s *workers.Sandbox, tmp string, hidden []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sandbox %s: ", s.Level)
	if len(writable) > 0 {
		fmt.Fprintf(&b, "it writes %s and its own %s", strings.Join(writable, ", "), tmp)
	} else {
		fmt.Fprintf(&b, "it writes its own %s", tmp)
	}
	switch {
	case s.Network == workers.NetworkList && len(s.Hosts) > 0:
		fmt.Fprintf(&b, ", reaches %s", strings.Join(s.Hosts[:min(len(s.Hosts), maxNamed)], ", "))
		if more := len(s.Hosts) - maxNamed; more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	case s.Network != workers.NetworkFull:
		b.WriteString(", no network")
	}
	if s.Home == workers.HomeTools {
		b.WriteString(", and of your home directory it sees only toolchains, caches and what you named")
	} else {
		b.WriteString(", and of your home directory it sees documents, toolchains and caches, but no keys or logins")
	}
	if len(hidden) > 0 {
		more := ""
		if len(hidden) > maxNamed {
			more = fmt.Sprintf(" and %d more", len(hidden)-maxNamed)
		}
		fmt.Fprintf(&b, " (withheld variables: %s%s)", strings.Join(hidden[:min(len(hidden), maxNamed)], ", "), more)
	}
	return b.String()
}

// sharedLimit bounds the shared memory of a session, in bytes; 0 does not. Files in it that nobody
// has mapped do not count as memory. It is larger than the limit of memory, so that a program
// which maps it meets that one first, whose end is told.
func sharedLimit(l workers.Limits) int64 {
	if l.Disk > 0 {
		return l.Disk
	}
	return l.Memory + l.Memory/2
}

// objectsLimit bounds what programs share by number (System V), in bytes. Most of it is memory of the
// kernel's that no process has: without a bound, code fills the machine with it.
func objectsLimit(l workers.Limits, o *Options) int64 {
	if l.Memory > 0 {
		return l.Memory + l.Memory/2
	}
	return cmp.Or(o.Memory, DefaultMemory()) / 4
}

// variable returns the value of a variable in an environment, "" when it is not set. The last of
// a repeated name counts, as it does for the worker.
func variable(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// TrySandbox starts a program in a sandbox, in a directory, and ends it. There is no other way
// to know what this system allows. The error names the step that failed and a remedy. The
// result has the notices that a user of such a session would get. The end of ctx ends the
// program.
func (s *Supervisor) TrySandbox(ctx context.Context, sandbox *workers.Sandbox, dir string) ([]string, error) {
	state, err := os.MkdirTemp(s.o.Dir, "try-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = removeTree(state) }()
	return eachWay(sandbox, func(by workers.SandboxMechanism) ([]string, error) { return s.tryIn(ctx, sandbox, by, dir, state) })
}

func (s *Supervisor) tryIn(ctx context.Context, sandbox *workers.Sandbox, by workers.SandboxMechanism, dir, state string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c, err := confinementOf(&workers.Spec{Path: program, Dir: dir, Sandbox: sandbox}, &s.o, by, state, filepath.Join(state, "files"))
	if err != nil || c.sandbox == nil {
		return nil, err
	}
	defer c.ended()
	p, err := host.Start(&host.Command{Path: confine.Trial, Env: s.o.Env, Dir: dir, Sandbox: c.sandbox, Timeout: s.o.StartTimeout, Context: ctx})
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, p.Kill)()
	notices := c.notices
	for n := range p.Notices() { // until all of it has ended
		notices = append(notices, n)
	}
	if err := p.Close(); err != nil || ctx.Err() != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return notices, nil
}

// accountHome returns the home directory of the user's account, whatever HOME is; "" if it is not known.
func accountHome() string {
	account, err := user.Current()
	if err != nil {
		return ""
	}
	return account.HomeDir
}
