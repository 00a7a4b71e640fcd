package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/specs"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// statusServed is the exit status when another daemon, or something else, has the socket. It tells service
// managers not to start this one again and again.
const statusServed = 3

// serveOptions are the flags of repl serve.
type serveOptions struct {
	socket, sessionDir string
	log                logChoice
	idleExit, cullIdle time.Duration
	maxSessions        int
	memory             size // of all sessions together, as the next two are
	processes, cpus    int
	quiet, detach      bool
	servers            serverChoice
	warm               warmChoice
}

// serve keeps sessions alive for clients, at a socket.
func serve(f *flag.FlagSet) action {
	var o serveOptions
	f.StringVar(&o.socket, "socket", client.DefaultSocket(os.Getenv), socketWords)
	f.StringVar(&o.sessionDir, "session-dir", "", sessionDirWords)
	o.log.defineAs(f, "default "+logVariable+", or standard error and "+daemonLogName+" in the user's state directory")
	f.DurationVar(&o.idleExit, "idle-exit", 0, "`DURATION` end after this time without use; 0 is never")
	f.DurationVar(&o.cullIdle, "cull-idle", 0, "`DURATION` close sessions after this time without use; 0 is never")
	f.IntVar(&o.maxSessions, "max-sessions", supervisor.DefaultMaxSessions, fmt.Sprintf("`N` how many sessions there may be; at most %d", daemon.MaxSessions))
	f.Var(&o.memory, "memory", "`SIZE` of memory that all sessions may use together; without it three quarters of the machine's")
	f.IntVar(&o.processes, "processes", 0, "`N` processes that all sessions may have together, with their threads")
	f.IntVar(&o.cpus, "cpus", 0, "`N` processors that all sessions share")
	f.BoolVar(&o.quiet, "quiet", false, "log only warnings")
	o.servers.define(f)
	o.warm.define(f)
	f.BoolVar(&o.detach, "detach", false, "outlive the terminal and the login")
	return func(s streams, args []string) (int, error) {
		if err := parse(f, args); err != nil {
			return statusUsage, err
		}
		if err := nothingAfter(f); err != nil {
			return statusUsage, err
		}
		for name, d := range map[string]time.Duration{"idle-exit": o.idleExit, "cull-idle": o.cullIdle} {
			if d < 0 || d > 0 && d < time.Second {
				return statusUsage, misuse("--%s %s: use at least 1s, or 0 for never", name, d)
			}
		}
		if o.maxSessions < 1 || o.maxSessions > daemon.MaxSessions {
			return statusUsage, misuse("--max-sessions %d: use 1 to %d", o.maxSessions, daemon.MaxSessions)
		}
		if err := o.servers.check(); err != nil {
			return statusUsage, err
		}
		if err := o.warm.check(o.maxSessions); err != nil {
			return statusUsage, err
		}
		if isSet(f, "memory") && supervisor.DefaultMemory() == 0 {
			return statusUsage, misuse("--memory: this system bounds no memory of all sessions together; leave it out")
		}
		if o.memory == 0 {
			o.memory = size((&limitFlags{}).together())
		}
		if o.memory != 0 && o.memory < workers.MinMemoryBytes {
			return statusUsage, misuse("--memory %s: allow at least %s", &o.memory, workers.FormatBytes(workers.MinMemoryBytes))
		}
		for name, n := range map[string]int{"processes": o.processes, "cpus": o.cpus} {
			if isSet(f, name) && n < 1 {
				return statusUsage, misuse("--%s %d: allow at least 1, or leave it out", name, n)
			}
		}
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		if o.detach {
			return serveDetached(ctx, s, f)
		}
		return o.serve(ctx, s)
	}

}

// serveDetached starts the daemon as a process of its own, and returns once it serves.
func serveDetached(ctx context.Context, s streams, f *flag.FlagSet) (int, error) {
	socket, log := f.Lookup("socket").Value.String(), f.Lookup("log").Value.String()
	var more []string
	var err error
	f.Visit(func(one *flag.Flag) {
		value := one.Value.String()
		switch one.Name {
		case "detach", "socket", "log":
			return
		case "session-dir", "warm-dir": // it works in another directory
			if value != "" && err == nil {
				value, err = filepath.Abs(value)
			}
		}
		more = append(more, "--"+one.Name+"="+value)
	})
	if err == nil {
		socket, err = wholeSocket(socket)
	}
	if err == nil && log != "" {
		log, err = filepath.Abs(log)
	}
	if err != nil {
		return statusFailed, err
	}
	if log == "" {
		log = detachedLog(s.err)
	}
	i, err := startDaemon(ctx, socket, log, more, s.err)
	if status, ok := statusOf(ctx); ok {
		return status, nil
	}
	if isTaken(err) {
		return statusServed, err
	}
	if err != nil {
		return statusFailed, err
	}
	fmt.Fprintf(s.err, "repl: process %d serves at %s and outlives this terminal; its log is %s; stop it with repl ctl stop\n", i.PID, socketOf(i.PID, socket), log)
	return statusDone, nil
}

// isTaken reports whether somebody has the socket of a daemon that was to start.
func isTaken(err error) bool {
	return errors.Is(err, daemon.ErrServed) || errors.Is(err, daemon.ErrInUse)
}

func (o *serveOptions) serve(ctx context.Context, s streams) (int, error) {
	// The socket is made first, so that clients that start together with the daemon wait
	// in its queue.
	l, err := daemon.Listen(o.socket)
	if isTaken(err) {
		return statusServed, err
	}
	if err != nil {
		return statusFailed, err
	}
	defer l.Close()
	log, err := o.logger(s.err)
	if err != nil {
		return statusFailed, err
	}
	if c, ok := any(l).(interface{ Crashed() int }); ok && c.Crashed() != 0 {
		log.Warn("the daemon that served here before ended without a word: it was killed, or the machine was; its sessions are lost, and repl recover has what they did", "crashed_pid", c.Crashed())
	}
	if most := supervisor.MaxSessionsByFiles(); most > 0 && most < o.maxSessions {
		log.Warn("the open files that this program may have suffice for fewer sessions than --max-sessions: raise the hard limit (ulimit -Hn)", "sessions", most, "max_sessions", o.maxSessions)
	}
	set, err := o.servers.set(s.err, log, nil)
	if err != nil {
		return statusUsage, err
	}
	defer set.Close()
	sup, err := supervisor.New(&supervisor.Options{
		Functions: set.Functions(), Dir: o.sessionDir, ScrubEnv: clientSecrets(), RecoverCommand: recoverCommand, MaxSessions: o.maxSessions, Memory: int64(o.memory), Processes: o.processes, CPUs: o.cpus,
		Logger: log, Grants: keptFile(), BeforeWrite: mover(l), GrantHint: func(name, _ string, g session.Grant) string { return allowCommand(name, g) },
	})
	if err != nil {
		return statusFailed, err
	}
	defer sup.Close()
	d, err := daemon.New(&daemon.Options{
		Supervisor:         sup,
		Languages:          remembered(languageNames),
		HasLanguage:        hasLanguage,
		FindSpec:           specFor,
		DaemonIdleTimeout:  o.idleExit,
		SessionIdleTimeout: o.cullIdle,
		WarmPools:          o.warm.all(),
		WarmMemory:         int64(o.memory) / 4,
		StartStamp:         stampOf,
		Logger:             log,
		Version:            programVersion(),
	})
	if err != nil {
		return statusFailed, err
	}
	if !o.quiet {
		fmt.Fprintf(s.err, "repl: serving at %s; stop with Ctrl-C, or repl ctl stop\n", l.Addr())
	}
	if err := d.Serve(ctx, l); err != nil {
		return statusFailed, err
	}
	if status, ok := statusOf(ctx); ok && ctx.Err() != nil {
		return status, nil
	}
	return statusDone, nil
}

// mover has the daemon move its socket out of what a session is about to write.
func mover(l any) func(dirs []string) (keep []string, ended func()) {
	if m, ok := l.(interface {
		Leave(dirs []string) (keep []string, ended func())
	}); ok {
		return m.Leave
	}
	return nil
}

// logger returns the log of a daemon: the file that was chosen, or else standard error and the
// usual file.
func (o *serveOptions) logger(stderr io.Writer) (*slog.Logger, error) {
	usual := slog.LevelInfo
	if o.quiet {
		usual = slog.LevelWarn
	}
	level, err := levelOf(o.log.level, usual)
	if err != nil {
		return nil, err
	}
	if o.log.file != "" {
		to, err := openLog(o.log.file)
		if err != nil {
			return nil, fmt.Errorf("cannot write the log: %w", err)
		}
		return newLogger(textHandler(to, level)), nil
	}
	path := defaultLog()
	shown := level
	if path != "" && o.log.level == "" && isTerminal(stderr) {
		shown = slog.LevelWarn // the user may type at that terminal; the file has it all
	}
	said := textHandler(stderr, shown)
	if path == "" {
		return newLogger(said), nil
	}
	to, err := openLog(path)
	if err != nil {
		log := newLogger(textHandler(stderr, level))
		log.Warn("no log is kept", "error", err)
		return log, nil
	}
	return newLogger(said, textHandler(to, level)), nil
}

// remembered calls list once in a second at most: a look at the directories of Jupyter takes
// longer than an answer.
func remembered(list func() []string) func() []string {
	var mu sync.Mutex
	var names []string
	var until time.Time
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(until) {
			names, until = list(), now.Add(time.Second)
		}
		return names
	}
}

// hasLanguage reports whether a daemon has a language now. It looks for a Jupyter kernel only when
// that is asked for.
func hasLanguage(name string) bool {
	if kernel, ok := strings.CutPrefix(name, jupyterPrefix); ok {
		return slices.ContainsFunc(kernels(), func(k specs.Spec) bool { return k.Name == kernel })
	}
	return slices.ContainsFunc(languages(), func(l language) bool { return l.name == name })
}

// languageNames returns the languages that a daemon has. The Jupyter kernels are those that its
// own environment shows.
func languageNames() []string {
	var names []string
	for _, l := range languages() {
		names = append(names, l.name)
	}
	for _, k := range kernels() {
		names = append(names, jupyterPrefix+k.Name)
	}
	return names
}

// specFor finds the runtime that a client of the daemon asks for, with its packages.
func specFor(p client.CreateParams) (workers.Spec, error) {
	c := choice{dir: p.Dir}
	if len(p.Command) > 0 {
		c.worker = workerFlag{{p.Language, p.Command}}
	}
	l, err := c.named(p.Language)
	if err != nil {
		return workers.Spec{}, err
	}
	if err := c.resolvePaths(); err != nil {
		return workers.Spec{}, err
	}
	names, err := l.packages.Canonical(p.Packages)
	if err != nil {
		return workers.Spec{}, session.Errorf(session.KindInvalid, "with: %v", err)
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		env = append(env, name+"="+p.Env[name])
	}
	s := l.spec(p.Runtime, c.dir, surroundings{env: env})
	s.Sandbox, s.Limits = sandboxOf(p), limitsOf(p.Limits)
	return l.needing(s, names), errors.Join(s.Sandbox.Validate(), s.Limits.Validate())
}
