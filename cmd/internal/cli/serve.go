package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// statusServed is the exit status when another daemon serves the socket. It tells service
// managers not to start this one again and again.
const statusServed = 3

// serveOptions are the flags of repl serve.
type serveOptions struct {
	socket, sessionDir, log string
	idleExit, cullIdle      time.Duration
	maxSessions             int
	quiet, detach           bool
}

// serve keeps sessions alive for clients, at a socket.
func serve(f *flag.FlagSet) action {
	var o serveOptions
	f.StringVar(&o.socket, "socket", client.DefaultSocket(os.Getenv), socketWords)
	f.StringVar(&o.sessionDir, "session-dir", "", sessionDirWords)
	f.StringVar(&o.log, "log", "", "`FILE` say there what there is to say, not on standard error")
	f.DurationVar(&o.idleExit, "idle-exit", 0, "`DURATION` end when nobody has used the daemon for so long; 0 is never")
	f.DurationVar(&o.cullIdle, "cull-idle", 0, "`DURATION` close sessions that nobody has used for so long; 0 is never")
	f.IntVar(&o.maxSessions, "max-sessions", supervisor.DefaultMaxSessions, fmt.Sprintf("`N` how many sessions there may be; at most %d", daemon.MaxSessions))
	f.BoolVar(&o.quiet, "quiet", false, "do not say what happens")
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
				return statusUsage, misuse("--%s %s: want at least 1s, or 0 for never", name, d)
			}
		}
		if o.maxSessions < 1 || o.maxSessions > daemon.MaxSessions {
			return statusUsage, misuse("--max-sessions %d: want 1 to %d", o.maxSessions, daemon.MaxSessions)
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
	socket, log := f.Lookup("socket").Value.String(), defaultLog()
	var more []string
	var err error
	f.Visit(func(one *flag.Flag) {
		value := one.Value.String()
		switch one.Name {
		case "detach", "socket":
			return
		case "session-dir", "log": // it works in another directory
			if value != "" && err == nil {
				value, err = filepath.Abs(value)
			}
			if one.Name == "log" {
				log = value
			}
		}
		more = append(more, "--"+one.Name+"="+value)
	})
	if err == nil {
		socket, err = wholeSocket(socket)
	}
	if err != nil {
		return statusFailed, err
	}
	i, err := startDaemon(ctx, socket, more, s.err)
	if status, ok := statusOf(ctx); ok {
		return status, nil
	}
	if errors.Is(err, daemon.ErrServed) {
		return statusServed, err
	}
	if err != nil {
		return statusFailed, err
	}
	fmt.Fprintf(s.err, "repl: process %d serves at %s and outlives this terminal; its log is %s; stop it with repl ctl stop\n", i.PID, socket, cmp.Or(log, "nowhere"))
	return statusDone, nil
}

func (o *serveOptions) serve(ctx context.Context, s streams) (int, error) {
	// The socket is made first, so that clients that start together with the daemon wait
	// in its queue.
	l, err := daemon.Listen(o.socket)
	if errors.Is(err, daemon.ErrServed) {
		return statusServed, err
	}
	if err != nil {
		return statusFailed, err
	}
	defer l.Close()
	to := s.err
	if o.log != "" {
		if to, err = openLog(o.log); err != nil {
			return statusFailed, fmt.Errorf("cannot write the log: %w", err)
		}
	}
	level := slog.LevelInfo
	if o.quiet {
		level = slog.LevelWarn
	}
	log := slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
	if c, ok := any(l).(interface{ Crashed() int }); ok && c.Crashed() != 0 {
		log.Warn("the daemon that served here before ended without a word: it was killed, or the machine was; its sessions are lost, and repl recover has what they did", "pid", c.Crashed())
	}
	sup, err := supervisor.New(&supervisor.Options{
		Dir: o.sessionDir, ScrubEnv: clientSecrets(), Recover: recoverCommand, MaxSessions: o.maxSessions,
		OnEnd: func(session string, end timeline.GenerationEnded) { logWorkerEnd(log, session, end) },
	})
	if err != nil {
		return statusFailed, err
	}
	defer sup.Close()
	d, err := daemon.New(&daemon.Options{
		Supervisor: sup,
		Languages:  languageNames(),
		Spec:       specFor,
		Packages:   packagesFor,
		IdleExit:   o.idleExit,
		CullIdle:   o.cullIdle,
		Logger:     log,
		Version:    programVersion(),
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

// logWorkerEnd logs why a session lost its state. It is no warning if a client asked for it.
func logWorkerEnd(log *slog.Logger, session string, end timeline.GenerationEnded) {
	level := slog.LevelWarn
	if end.Clean {
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level, "a session's runtime ended", "session", session, "why", end.Reason, "said", end.Message)
}

func languageNames() []string {
	var names []string
	for _, l := range languages() {
		names = append(names, l.name)
	}
	return names
}

// specFor finds the runtime that a client of the daemon asks for.
func specFor(p client.CreateParams) (workers.Spec, error) {
	l, err := languageNamed(p.Language)
	if err != nil {
		return workers.Spec{}, err
	}
	c := choice{dir: p.Dir}
	if err := c.resolvePaths(); err != nil {
		return workers.Spec{}, err
	}
	return l.spec(p.Runtime, c.dir, surroundings{}), nil
}
