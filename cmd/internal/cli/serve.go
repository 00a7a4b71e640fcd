package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// statusServed is the exit status when another daemon serves the socket: service
// managers must not start this one again and again.
const statusServed = 3

// serve keeps sessions alive for clients, at a socket.
func serve(s streams, args []string) (int, error) {
	f := newFlags("serve")
	socket := f.String("socket", client.DefaultSocket(os.Getenv), "")
	sessionDir := f.String("session-dir", "", "")
	idleExit := f.Duration("idle-exit", 0, "")
	quiet := f.Bool("quiet", false, "")
	if err := parse(f, args); err != nil {
		return statusUsage, err
	}
	if err := nothingAfter(f); err != nil {
		return statusUsage, err
	}
	if *idleExit < 0 || *idleExit > 0 && *idleExit < time.Second {
		return statusUsage, misuse("--idle-exit %s: want at least 1s, or 0 for never", *idleExit)
	}
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()

	// The socket comes first: clients that are started with the daemon wait in its
	// queue, not in vain.
	l, err := daemon.Listen(*socket)
	if errors.Is(err, daemon.ErrServed) {
		return statusServed, err
	}
	if err != nil {
		return statusFailed, err
	}
	sup, err := supervisor.New(&supervisor.Options{Dir: *sessionDir, ScrubEnv: clientSecrets(), Recover: recoverCommand})
	if err != nil {
		_ = l.Close()
		return statusFailed, err
	}
	defer sup.Close()
	level := slog.LevelInfo
	if *quiet {
		level = slog.LevelWarn
	}
	d, err := daemon.New(&daemon.Options{
		Supervisor: sup,
		Languages:  languageNames(),
		Spec:       specFor,
		Packages:   packagesFor,
		IdleExit:   *idleExit,
		Logger:     slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level})),
		Version:    programVersion(),
	})
	if err != nil {
		_ = l.Close()
		return statusFailed, err
	}
	if !*quiet {
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
	if err := c.settleDir(); err != nil {
		return workers.Spec{}, err
	}
	return l.spec(p.Runtime, c.dir, surroundings{}), nil
}
