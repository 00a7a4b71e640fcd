package daemoncmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// serveOptions holds the flags of repl serve.
type serveOptions struct {
	socket, sessionDir                  string
	log                                 cmdflags.LogFlags
	idleExitTimeout, sessionIdleTimeout time.Duration
	maxSessions                         int
	memory                              cmdkit.ByteSize // for all sessions together, like the next two
	processes, cpus                     int
	quiet, detach                       bool
	stdio                               stdioFlags
	servers                             cmdflags.ToolServerFlags
	warm                                warmPoolFlags
}

// NewServeCommand returns the command that keeps sessions alive for clients that connect to a socket.
func NewServeCommand(f *flag.FlagSet) cmdkit.Action {
	var o serveOptions
	f.StringVar(&o.socket, "socket", client.DefaultSocket(os.Getenv), cmdkit.SocketUsage)
	f.StringVar(&o.sessionDir, "session-dir", "", cmdkit.SessionDirUsage)
	o.log.AddFlagsWithDefault(f, "default "+cmdflags.LogEnv+", or standard error and "+cmdflags.DaemonLogName+" in the user's state directory")
	f.DurationVar(&o.idleExitTimeout, "daemon-idle-timeout", 0, "`DURATION` exit after this time without use; 0 means never")
	f.DurationVar(&o.sessionIdleTimeout, "session-idle-timeout", 0, "`DURATION` close a session after this time without use; 0 means never")
	f.IntVar(&o.maxSessions, "max-sessions", supervisor.DefaultMaxSessions, fmt.Sprintf("`N` maximum number of sessions; at most %d", daemon.MaxSessions))
	f.Var(&o.memory, "memory", "`SIZE` memory that all sessions may use together; default three quarters of the machine's")
	f.IntVar(&o.processes, "processes", 0, "`N` processes that all sessions may have together, counting threads")
	f.IntVar(&o.cpus, "cpus", 0, "`N` processors that all sessions share")
	f.BoolVar(&o.quiet, "quiet", false, "log only warnings")
	cmdkit.AddFlagGroups(f, &o.servers, &o.warm)
	o.stdio.addFlags(f)
	f.BoolVar(&o.detach, "detach", false, "run in the background, and outlive the terminal and the login")
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := cmdkit.RequireNoArgs(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		for name, d := range map[string]time.Duration{"daemon-idle-timeout": o.idleExitTimeout, "session-idle-timeout": o.sessionIdleTimeout} {
			if d < 0 || d > 0 && d < time.Second {
				return cmdkit.StatusUsage, cmdkit.UsageErrorf("--%s %s: use at least 1s, or 0 for never", name, d)
			}
		}
		if o.maxSessions < 1 || o.maxSessions > daemon.MaxSessions {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--max-sessions %d: use 1 to %d", o.maxSessions, daemon.MaxSessions)
		}
		if err := o.servers.ResolveSources(); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := o.warm.validatePool(o.maxSessions); err != nil {
			return cmdkit.StatusUsage, err
		}
		if cmdkit.IsFlagSet(f, "memory") && supervisor.DefaultMemory() == 0 {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--memory: this system cannot limit the memory of all sessions together; omit it")
		}
		if o.memory == 0 {
			o.memory = cmdkit.ByteSize((&cmdflags.LimitFlags{}).TotalMemory())
		}
		if o.memory != 0 && o.memory < workers.MinMemoryBytes {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--memory %s: use at least %s", &o.memory, workers.FormatBytes(workers.MinMemoryBytes))
		}
		for name, n := range map[string]int{"processes": o.processes, "cpus": o.cpus} {
			if cmdkit.IsFlagSet(f, name) && n < 1 {
				return cmdkit.StatusUsage, cmdkit.UsageErrorf("--%s %d: use at least 1, or omit it", name, n)
			}
		}
		if err := o.stdio.validate(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		if o.stdio.isOn {
			return o.serveParent(s)
		}
		ctx, stop := cmdkit.CatchSignals(os.Interrupt)
		defer stop()
		if o.detach {
			return serveDetached(ctx, s, f)
		}
		return o.serve(ctx, s)
	}
}

// serveDetached starts the daemon as a separate process, and returns once it serves.
func serveDetached(ctx context.Context, s cmdkit.Streams, f *flag.FlagSet) (int, error) {
	socket, log := f.Lookup("socket").Value.String(), f.Lookup("log").Value.String()
	more, err := detachedArgs(f)
	if err == nil {
		socket, err = daemonlink.AbsoluteSocket(socket)
	}
	if err == nil && log != "" {
		log, err = filepath.Abs(log)
	}
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if log == "" {
		log = daemonlink.DetachedLogPath(s.Err)
	}
	i, err := daemonlink.StartDaemon(ctx, socket, log, more, s.Err)
	if status, ok := cmdkit.SignalStatus(ctx); ok {
		return status, nil
	}
	if isSocketTaken(err) {
		return cmdkit.StatusAlreadyServed, err
	}
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	fmt.Fprintf(s.Err, "repl: process %d serves at %s and outlives this terminal; its log is %s; stop it with repl daemon stop\n", i.PID, daemonlink.ActualSocket(i.PID, socket), log)
	return cmdkit.StatusDone, nil
}

// detachedArgs returns the flags of the daemon's own command line. The daemon works in another
// directory, so relative paths become absolute.
func detachedArgs(f *flag.FlagSet) (args []string, err error) {
	f.Visit(func(one *flag.Flag) {
		values := []string{one.Value.String()}
		if repeated, ok := one.Value.(cmdkit.RepeatedValue); ok {
			values = repeated.Values()
		}
		switch one.Name {
		case "detach", "socket", "log":
			return
		case "session-dir", "warm-dir":
			if values[0] != "" && err == nil {
				values[0], err = filepath.Abs(values[0])
			}
		}
		for _, value := range values {
			args = append(args, "--"+one.Name+"="+value)
		}
	})
	return args, err
}

// isSocketTaken reports whether a daemon failed to start because its socket is in use.
func isSocketTaken(err error) bool {
	return errors.Is(err, daemon.ErrServed) || errors.Is(err, daemon.ErrInUse)
}

func (o *serveOptions) serve(ctx context.Context, s cmdkit.Streams) (int, error) {
	// The socket is created first, so that clients that start together with the daemon wait in its
	// queue.
	l, err := daemon.Listen(o.socket)
	if isSocketTaken(err) {
		return cmdkit.StatusAlreadyServed, err
	}
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	defer l.Close()
	log, err := o.openLogger(s.Err)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if c, ok := any(l).(interface{ CrashedPID() int }); ok && c.CrashedPID() != 0 {
		log.Warn("previous daemon crashed; run repl recover to see its sessions", "crashed_pid", c.CrashedPID())
	}
	return o.serveListener(ctx, s, l, log)
}

// serveListener serves the clients of l.
func (o *serveOptions) serveListener(ctx context.Context, s cmdkit.Streams, l net.Listener, log *slog.Logger) (int, error) {
	if most := supervisor.MaxSessionsByFiles(); most > 0 && most < o.maxSessions {
		log.Warn("open file limit is too low for --max-sessions; raise the hard limit (ulimit -Hn)", "sessions", most, "max_sessions", o.maxSessions)
	}
	set, err := o.servers.NewToolSet(s.Err, log, nil)
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	defer set.Close()
	sup, err := supervisor.New(&supervisor.Options{
		Functions: set.Functions(), Dir: o.sessionDir, ScrubEnv: cmdflags.ClientSecrets(), RecoverCommand: cmdkit.RecoverCommand, MaxSessions: o.maxSessions, Memory: int64(o.memory), Processes: o.processes, CPUs: o.cpus,
		Logger: log, Grants: cmdflags.UserConfigFile(), BeforeWrite: socketMover(l), GrantHint: func(name, _ string, g session.Grant) string { return cmdflags.GrantCommand(name, g) },
	})
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	defer sup.Close()
	d, err := daemon.New(&daemon.Options{
		Supervisor:         sup,
		Languages:          cacheNames(languages.Names),
		HasLanguage:        languages.Has,
		FindSpec:           specFor,
		DaemonIdleTimeout:  o.idleExitTimeout,
		SessionIdleTimeout: o.sessionIdleTimeout,
		WarmPools:          o.warm.poolSpecs(),
		WarmMemory:         int64(o.memory) / 4,
		StartStamp:         startStamp,
		Private:            o.stdio.isOn,
		Logger:             log,
		Version:            cmdkit.ProgramVersion(),
	})
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if !o.quiet && !o.stdio.isOn {
		fmt.Fprintf(s.Err, "repl: serving at %s; stop with Ctrl-C, or repl daemon stop\n", l.Addr())
	}
	if err := d.Serve(ctx, l); err != nil {
		return cmdkit.StatusFailed, err
	}
	if status, ok := cmdkit.SignalStatus(ctx); ok && ctx.Err() != nil {
		return status, nil
	}
	return cmdkit.StatusDone, nil
}

// socketMover makes the daemon move its socket out of directories that a session is about to write.
func socketMover(l any) func(dirs []string) (keep []string, ended func()) {
	if m, ok := l.(interface {
		MoveOutOf(dirs []string) (keep []string, ended func())
	}); ok {
		return m.MoveOutOf
	}
	return nil
}

// openLogger opens the log of a daemon: the chosen file, or else standard error and the default
// file.
func (o *serveOptions) openLogger(stderr io.Writer) (*slog.Logger, error) {
	defaultLevel := slog.LevelInfo
	if o.quiet {
		defaultLevel = slog.LevelWarn
	}
	level, err := cmdflags.ParseLogLevel(o.log.Level, defaultLevel)
	if err != nil {
		return nil, err
	}
	if o.log.File != "" {
		to, err := cmdflags.OpenLog(o.log.File)
		if err != nil {
			return nil, fmt.Errorf("cannot write the log: %w", err)
		}
		return cmdflags.NewLogger(cmdflags.NewTextHandler(to, level)), nil
	}
	path := cmdflags.DefaultLogPath()
	stderrLevel := level
	if path != "" && o.log.Level == "" && cmdkit.IsTerminal(stderr) {
		stderrLevel = slog.LevelWarn // the user may type at that terminal; the file has everything
	}
	stderrHandler := cmdflags.NewTextHandler(stderr, stderrLevel)
	if path == "" {
		return cmdflags.NewLogger(stderrHandler), nil
	}
	to, err := cmdflags.OpenLog(path)
	if err != nil {
		log := cmdflags.NewLogger(cmdflags.NewTextHandler(stderr, level))
		log.Warn("cannot open log", "error", err)
		return log, nil
	}
	return cmdflags.NewLogger(stderrHandler, cmdflags.NewTextHandler(to, level)), nil
}

// cacheNames calls list at most once a second, because scanning the Jupyter directories takes
// longer than an answer.
func cacheNames(list func() []string) func() []string {
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

// specFor finds the runtime that a client of the daemon asks for, with its packages.
func specFor(p protocol.CreateParams) (workers.Spec, error) {
	c := cmdflags.RuntimeFlags{Dir: p.Dir}
	if len(p.Command) > 0 {
		c.Worker = languages.WorkerFlag{{Name: p.Language, Command: p.Command}}
	}
	l, err := c.FindLanguage(p.Language)
	if err != nil {
		return workers.Spec{}, err
	}
	if err := c.ResolvePaths(); err != nil {
		return workers.Spec{}, err
	}
	names, err := l.Packages.Canonical(p.Packages)
	if err != nil {
		return workers.Spec{}, session.Errorf(session.KindInvalid, "with: %v", err)
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		env = append(env, name+"="+p.Env[name])
	}
	s := l.NewSpec(p.Runtime, c.Dir, languages.RuntimeSettings{Env: env})
	s.Term, s.Sandbox, s.Limits = p.Term, cmdflags.SandboxFromParams(p), cmdflags.LimitsFromClient(p.Limits)
	return cmdflags.WithPreparation(l, s, names), errors.Join(s.Sandbox.Validate(), s.Limits.Validate())
}
