package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linux"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/workers"
)

// A confinement is everything that a sandbox adds to the start of a worker.
type confinement struct {
	sandbox     *launch.SandboxConfig // nil without a sandbox
	env         []string              // changes to the worker's environment, applied before those of its Spec
	notices     []string              // for the user of the session; complete when the worker has started
	sandboxView                       // complete when the worker has started
	release     func()                // call it once the sandbox is no longer used; never nil
}

// A sandboxView describes what a sandboxed worker cannot see. Without a sandbox it is empty.
type sandboxView struct {
	plan              *plan.Plan // nil without a sandbox
	hiddenPaths       []string   // paths that cannot be opened
	unshownPaths      []string   // paths that are not shown but could be
	withheldVariables []string   // variables that are removed from the worker's environment
	privateDirs       privateDirs
}

// maxListedItems bounds the hosts and variables that a notice lists.
const maxListedItems = 8

// eachMechanism tries the mechanisms that can implement a sandbox until one works. It tries a
// mechanism other than the first only if its user accepts that, and if this system lacks support
// for the one before.
func eachMechanism[T any](s *sandbox.Policy, try func(by sandbox.Mechanism) (T, error)) (result T, err error) {
	if !s.Confines() {
		return try("")
	}
	for _, by := range linux.Mechanisms(s.AcceptMechanism) {
		before := err
		if result, err = try(by); err == nil {
			return result, nil
		}
		if before != nil {
			return result, fmt.Errorf("%w; before that: %w", err, before)
		}
		if e, ok := errors.AsType[*monitorproto.StartError](err); !ok || !plan.IsUnsupported(e.Step, e.Err) {
			return result, err
		}
	}
	return result, err
}

// newConfinement prepares the sandbox of a worker. own is the directory of the session, and files
// is the directory of the worker.
func newConfinement(spec *workers.Spec, o *Options, by sandbox.Mechanism, own, files string) (c *confinement, err error) {
	c = &confinement{release: func() {}}
	wanted := spec.Sandbox
	if !wanted.Confines() {
		return c, nil
	}
	if err := linux.CheckSupported(by); err != nil {
		return c, err
	}
	state := filepath.Join(own, "sandbox")
	homes := filepath.Join(state, "home") // for files that tools would create in the home directory
	for _, dir := range []string{files, homes} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return c, err
		}
	}
	home := environ.Get(o.Env, "HOME")
	policy := *wanted
	policy.Layered = slices.Clone(policy.Layered)
	variables := sandbox.HomeVariables()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		dir := filepath.Join(home, variables[name])
		if set := environ.Get(o.Env, name); set != "" {
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
	if by != "" { // the mechanism cannot replace /tmp
		tmp = filepath.Join(state, "tmp")
	}
	c.env = append(c.env, "TMPDIR="+tmp, "TMP", "TEMP")
	c.withholdVariables(o.Env)

	dir := spec.Dir
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return c, err
		}
	}
	getenv := environ.Getenv(o.Env)
	if dir := userdirs.State(getenv, ""); dir != "" {
		// The daemon's key will be in it, even if the key is created while the session runs.
		_ = os.MkdirAll(filepath.Join(dir, "turnstone"), 0o700)
	}
	policy.Hidden = slices.Concat(wanted.Hidden, o.serviceDirs(wanted, dir))
	policy.Protected = append(slices.Clone(policy.Protected), daemonDirs(o.Env)...)
	if cache := filepath.Join(userdirs.Cache(getenv, home), "turnstone"); filepath.IsAbs(cache) { // sessions without a sandbox run code from it
		policy.Protected = append(slices.Clone(policy.Protected), cache)
	}
	replaced, hasEgress, err := c.prepareEgress(&policy, by, state)
	if err != nil {
		return c, err
	}
	directories := movedHomeDirs(o.Env)
	settings := filepath.Join(state, "settings") // the session sees the files in it read-only
	if by != "" {
		settings = homes // nothing can be mounted
	}
	if by != "" { // git fails on settings that it may not read, but accepts a missing file
		c.env = append(c.env, "GIT_CONFIG_GLOBAL="+homedir.SettingsIn(settings, ".gitconfig"))
	}
	origin := plan.Origin{
		Home: home, Path: environ.Get(o.Env, "PATH"), Env: o.Env, Directories: directories, Dir: dir, Program: spec.Path,
		State: state, Sessions: o.Dir, Files: []string{files, homes},
		Replaced: replaced, Settings: settings, Account: accountHome(), Events: o.events,
	}
	if o.BeforeWrite != nil {
		var keep []string
		keep, c.release = o.BeforeWrite(plan.WritablePaths(wanted, origin))
		policy.Protected = append(policy.Protected, keep...)
	}
	c.sandbox = &launch.SandboxConfig{Mechanism: by, Egress: hasEgress, Plan: func() (*plan.Plan, error) {
		sandboxPlan, notices, err := newSandboxPlan(&policy, origin, by, spec, hasEgress, o)
		if err != nil {
			return nil, err
		}
		c.plan, c.hiddenPaths, c.unshownPaths = sandboxPlan, sandboxPlan.HiddenPaths(), sandboxPlan.UnshownPaths()
		if by == "" {
			c.privateDirs = newPrivateDirs(sandboxPlan, append(sandboxPlan.WritableDirs(), paths.RealOrSame(dir), paths.RealOrSame(o.Dir)))
		}
		if !policy.NoNotice {
			c.notices = append(c.notices, describeSandbox(sandboxPlan.WritableDirs(), &policy, tmp, c.withheldVariables))
		}
		c.notices = append(c.notices, notices...)
		return sandboxPlan, nil
	}}
	return c, nil
}

// withholdVariables removes secrets and logins from the worker's environment.
func (c *confinement) withholdVariables(env []string) {
	withheld := workers.SecretVariables(env)
	c.env = append(c.env, withheld...)
	for _, entry := range workers.LoginVariables(env) {
		name, _, _ := strings.Cut(entry, "=")
		c.env, withheld = append(c.env, entry), append(withheld, "the login in "+name)
	}
	c.withheldVariables = withheld
}

// prepareEgress prepares the egress of a sandbox whose network is a list of hosts. It returns the
// replacements for files of the machine and whether the sandbox has egress.
func (c *confinement) prepareEgress(policy *sandbox.Policy, by sandbox.Mechanism, state string) (replaced map[string]string, hasEgress bool, err error) {
	if policy.Network != sandbox.NetworkList {
		return nil, false, nil
	}
	switch by {
	case "":
		replaced, err = writeNameFiles(state)
		return replaced, err == nil, err
	case sandbox.Landlock: // it has no namespace that could redirect name resolution
		err := linux.CheckConnect()
		if err == nil {
			c.env = append(c.env, proxyEnv()...)
			return nil, true, nil
		}
		if len(policy.Hosts) > 0 {
			return nil, false, err
		}
	}
	return nil, false, nil
}

// newSandboxPlan plans the sandbox of a worker for a mechanism. The notices say first what the
// mechanism lacks.
func newSandboxPlan(policy *sandbox.Policy, origin plan.Origin, by sandbox.Mechanism, spec *workers.Spec, hasEgress bool, o *Options) (*plan.Plan, []string, error) {
	sandboxPlan, notices, err := plan.NewPlan(policy, origin)
	if err != nil {
		return nil, nil, err
	}
	sandboxPlan.Ask, sandboxPlan.Egress = spec.Sandbox.AskUser, hasEgress
	sandboxPlan.Disk, sandboxPlan.Shared = spec.Limits.Disk, sharedMemoryLimit(spec.Limits)
	sandboxPlan.Objects = sysVObjectsLimit(spec.Limits, o)
	lacks, err := sandboxPlan.ForMechanism(by, spec.Sandbox)
	if err != nil {
		return nil, nil, err
	}
	return sandboxPlan, append(lacks, notices...), nil
}

// newPrivateDirs returns the directories that a session has separately. exceptions lists the
// machine's directories in them.
func newPrivateDirs(sandboxPlan *plan.Plan, exceptions []string) privateDirs {
	home, shown := sandboxPlan.Home()
	p := privateDirs{dirs: sandboxPlan.PrivateDirs(), home: home, exceptions: exceptions, checkShow: sandboxPlan.CheckShow}
	if home != "" {
		p.dirs = append(p.dirs, home)
		p.exceptions = slices.Concat(p.exceptions, sandboxPlan.HiddenPaths(), sandboxPlan.UnshownPaths()) // these have separate notices
		for _, mount := range shown {
			p.exceptions = append(p.exceptions, string(mount.Path))
		}
	}
	return p
}

// serviceDirs returns the directories of the user's services and of Turnstone that are hidden from
// a session in dir, regardless of what it may write.
func (o *Options) serviceDirs(policy *sandbox.Policy, dir string) (hidden []string) {
	home := environ.Get(o.Env, "HOME")
	needed := []string{home, o.Dir}
	getenv := environ.Getenv(o.Env)
	config, state := filepath.Join(userdirs.Config(getenv, home), "turnstone"), filepath.Join(userdirs.State(getenv, home), "turnstone")
	for _, own := range []string{config, state, userdirs.ProgramState(getenv)} { // the last one may be in another home directory
		if canHide(own, needed) && !slices.Contains(hidden, own) {
			hidden = append(hidden, own)
		}
	}
	if run := userdirs.Runtime(getenv); canHide(run, append(needed, dir, policy.Workspace)) { // the user's services
		hidden = append(hidden, run)
	}
	return hidden
}

// daemonDirs returns the directories in which a daemon listens, if a variable names them. A session
// that could change them in its workspace could impersonate the daemon.
func daemonDirs(env []string) (dirs []string) {
	if socket := environ.Get(env, "TURNSTONE_SOCKET"); filepath.IsAbs(socket) {
		dirs = append(dirs, socket, socket+".lock")
	}
	getenv := environ.Getenv(env)
	for _, dir := range []string{userdirs.Runtime(getenv), userdirs.State(getenv, "")} {
		if dir != "" {
			dirs = append(dirs, filepath.Join(dir, "turnstone"))
		}
	}
	if dir := getenv("TMPDIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "turnstone-"+strconv.Itoa(os.Getuid())))
	}
	return dirs
}

// canHide reports whether a directory can be hidden as a whole, because it contains nothing that
// the session needs.
func canHide(dir string, needed []string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	return !slices.ContainsFunc(needed, func(other string) bool {
		return other != "" && (paths.Contains(paths.RealOrSame(dir), paths.RealOrSame(other)) || paths.Contains(filepath.Clean(dir), other))
	})
}

// describeSandbox describes in one line what a session can access.
func describeSandbox(writable []string, s *sandbox.Policy, tmp string, withheld []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sandbox %s: ", s.Level)
	if len(writable) > 0 {
		fmt.Fprintf(&b, "it writes %s and its own %s", strings.Join(writable, ", "), tmp)
	} else {
		fmt.Fprintf(&b, "it writes its own %s", tmp)
	}
	switch {
	case s.Network == sandbox.NetworkList && len(s.Hosts) > 0:
		fmt.Fprintf(&b, ", reaches %s", strings.Join(s.Hosts[:min(len(s.Hosts), maxListedItems)], ", "))
		if more := len(s.Hosts) - maxListedItems; more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	case s.Network != sandbox.NetworkFull:
		b.WriteString(", no network")
	}
	if s.Home == sandbox.HomeTools {
		b.WriteString(", and of your home directory it sees only toolchains, caches and what you named")
	} else {
		b.WriteString(", and of your home directory it sees documents, toolchains and caches, but no keys or logins")
	}
	if len(withheld) > 0 {
		more := ""
		if len(withheld) > maxListedItems {
			more = fmt.Sprintf(" and %d more", len(withheld)-maxListedItems)
		}
		fmt.Fprintf(&b, " (withheld variables: %s%s)", strings.Join(withheld[:min(len(withheld), maxListedItems)], ", "), more)
	}
	return b.String()
}

// sharedMemoryLimit returns the bound on the shared memory of a session, in bytes; 0 means no
// bound. Files in shared memory that no process has mapped do not count as memory. The bound
// exceeds the memory limit, so that a program that maps such files reaches the memory limit first,
// which is reported.
func sharedMemoryLimit(l workers.Limits) int64 {
	if l.Disk > 0 {
		return l.Disk
	}
	return l.Memory + l.Memory/2
}

// sysVObjectsLimit returns the bound on System V objects, in bytes. Most of their memory belongs to
// the kernel and to no process, so without a bound code could fill the machine's memory.
func sysVObjectsLimit(l workers.Limits, o *Options) int64 {
	if l.Memory > 0 {
		return l.Memory + l.Memory/2
	}
	return cmp.Or(o.Memory, DefaultMemory()) / 4
}

// TrySandbox starts and ends a program in a sandbox, in a directory. Nothing else shows what this
// system allows. The error names the step that failed and a hint. The result has the notices that a
// user of such a session would get. The program ends when ctx ends.
func (sup *Supervisor) TrySandbox(ctx context.Context, policy *sandbox.Policy, dir string) ([]string, error) {
	state, err := os.MkdirTemp(sup.o.Dir, "try-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = removeTree(state) }()
	return eachMechanism(policy, func(by sandbox.Mechanism) ([]string, error) {
		return sup.trySandboxBy(ctx, policy, by, dir, state)
	})
}

func (sup *Supervisor) trySandboxBy(ctx context.Context, policy *sandbox.Policy, by sandbox.Mechanism, dir, state string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c, err := newConfinement(&workers.Spec{Path: program, Dir: dir, Sandbox: policy}, &sup.o, by, state, filepath.Join(state, "files"))
	if err != nil || c.sandbox == nil {
		return nil, err
	}
	defer c.release()
	p, err := launch.Start(&launch.StartConfig{Path: linux.TrialProgram, Env: sup.o.Env, Dir: dir, Sandbox: c.sandbox, Timeout: sup.o.StartTimeout, Context: ctx})
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, p.Kill)()
	notices := c.notices
	for n := range p.Notices() { // closed once all its processes have exited
		notices = append(notices, n)
	}
	if err := p.Close(); err != nil || ctx.Err() != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return notices, nil
}

// grantHintFor returns Options.GrantHint for one session; nil without a hint.
func (o *Options) grantHintFor(name string, spec *workers.Spec) func(session.Grant) string {
	if o.GrantHint == nil {
		return nil
	}
	workspace := specWorkspace(spec)
	return func(g session.Grant) string { return o.GrantHint(name, workspace, g) }
}

// checkWriteGrant returns why no session with this spec may write a path without symbolic links;
// nil if a user may allow it. programs describes why the user must confirm it.
func (o *Options) checkWriteGrant(spec *workers.Spec, path string) (programs string, err error) {
	return plan.CheckGrantable(o.sandboxWithHidden(spec), o.newOrigin(), path)
}

// sandboxWithGrants returns a sandbox with the grants that users gave. It leaves out files and
// directories that no longer exist or have been replaced, and returns them as missing, with a
// notice for each.
func (o *Options) sandboxWithGrants(spec *workers.Spec, grants []session.Grant) (_ *sandbox.Policy, missing []session.Grant, notices []string) {
	policy := spec.Sandbox
	if !policy.Confines() || len(grants) == 0 {
		return policy, nil, nil
	}
	wider := *policy
	wider.Writable, wider.Readable, wider.AcceptPaths = slices.Clone(policy.Writable), slices.Clone(policy.Readable), slices.Clone(policy.AcceptPaths)
	for _, g := range grants {
		list := &wider.Writable
		if g.Read != "" {
			list = &wider.Readable
		}
		path := g.Read + g.Write
		if path == "" {
			continue
		}
		named := slices.Contains(*list, path)
		if _, err := o.CheckPath(spec, g); err != nil {
			if !named { // otherwise the plan reports the fault
				missing, notices = append(missing, g), append(notices, skippedGrantText(path, err))
			}
			continue
		}
		if !named {
			*list = append(*list, path)
		}
		if g.Accept != "" {
			wider.AcceptPaths = append(wider.AcceptPaths, g.Accept)
		}
	}
	return &wider, missing, notices
}

// proxyEnv returns variables that direct programs to the session's proxy, where name resolution
// alone cannot. The proxy serves SOCKS5 as well, but some programs refuse to start if a variable
// names a SOCKS5 proxy.
func proxyEnv() []string {
	var list []string
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy"} {
		value := "=http://" + egressipc.ProxyAddr.String()
		list = append(list, name+value, strings.ToUpper(name)+value)
	}
	return append(list, "no_proxy", "NO_PROXY") // the user's exceptions are unreachable here
}

// writeNameFiles writes the files by which programs resolve names in the session: its resolver
// settings and a hosts file. The hosts file lacks the machine's entries, whose addresses are
// unreachable here. It returns the replacement for each file of the machine.
func writeNameFiles(state string) (map[string]string, error) {
	hostname, _ := os.Hostname()
	files := map[string]string{
		"/etc/resolv.conf": "nameserver 127.0.0.1\n",
		"/etc/hosts":       "127.0.0.1 localhost " + hostname + "\n::1 localhost ip6-localhost ip6-loopback\n",
	}
	replaced := make(map[string]string)
	for path, text := range files {
		replacement := filepath.Join(state, strings.ReplaceAll(path[1:], "/", "-"))
		if err := os.WriteFile(replacement, []byte(text), 0o644); err != nil {
			return nil, err
		}
		replaced[path] = replacement
	}
	return replaced, nil
}
