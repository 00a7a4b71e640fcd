package daemonlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/session"
)

// DaemonIdleTimeout is how long an unused daemon runs that a client has started. An agent that
// starts again the next morning still finds its session.
const DaemonIdleTimeout = 24 * time.Hour

// maxLastOutputBytes bounds how much of a failed daemon's last output is quoted.
const maxLastOutputBytes = 4 << 10

// startTimeout bounds the time from the start of a daemon to its first answer, which takes seconds
// on a busy machine. The wait ends early if the daemon exits.
const startTimeout = 30 * time.Second

// EnsureDaemon starts a daemon, unless one is running. The daemon exits after it was unused for
// DaemonIdleTimeout.
func EnsureDaemon(ctx context.Context, socket string, notes io.Writer) error {
	_, err := StartDaemon(ctx, socket, DetachedLogPath(notes), []string{"--daemon-idle-timeout", DaemonIdleTimeout.String()}, notes)
	if errors.Is(err, daemon.ErrServed) {
		return nil
	}
	return err
}

// StartDaemon starts a daemon that outlives this process and the login. If it does not answer in
// time, the error contains its output. log is the path of its log, and more holds further arguments
// of repl serve.
func StartDaemon(ctx context.Context, socket, log string, more []string, notes io.Writer) (protocol.DaemonInfo, error) {
	var none protocol.DaemonInfo
	self, err := os.Executable()
	if err != nil {
		return none, err
	}
	output, err := newTransientFile() // the daemon keeps it open
	if err != nil {
		return none, err
	}
	defer output.Close()
	args := append([]string{"serve", "--socket", socket, "--log", log}, more...)
	cmd, confined, err := startDetached(self, args, output)
	if err != nil {
		return none, err
	}
	if confined {
		fmt.Fprintln(notes, "repl: this program runs in a job that its children cannot leave, so the daemon ends with it; run repl serve yourself to keep the sessions")
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for limit := time.Now().Add(startTimeout); time.Now().Before(limit); {
		i, err := fetchInfo(ctx, ActualSocket(cmd.Process.Pid, socket))
		if err == nil && i.PID == cmd.Process.Pid { // if another daemon answers, the new one is about to exit
			return i, nil
		}
		if session.KindOf(err) == session.KindProtocol {
			return none, err
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case err := <-ended:
			timer.Stop()
			tail, _ := io.ReadAll(io.NewSectionReader(output, 0, maxLastOutputBytes))
			text := strings.TrimSpace(string(tail))
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == cmdkit.StatusAlreadyServed {
				return none, socketTakenError(text)
			}
			return none, fmt.Errorf("repl serve failed: %v: %s", err, text)
		case <-ctx.Done():
			timer.Stop()
			return none, ctx.Err()
		case <-timer.C:
		}
	}
	return none, fmt.Errorf("repl serve did not answer within %s", startTimeout)
}

// socketTakenError returns the error of a daemon that has exited because its socket is in use.
func socketTakenError(output string) error {
	for _, kind := range []error{daemon.ErrServed, daemon.ErrInUse} {
		if rest, ok := strings.CutPrefix(output, "repl: "+strings.TrimPrefix(kind.Error(), "daemon: ")+": "); ok {
			return fmt.Errorf("%w: %s", kind, rest)
		}
	}
	return fmt.Errorf("%w: %s", daemon.ErrServed, output)
}

// DetachedLogPath returns the log of a daemon that outlives this process, if the user gave none:
// its standard error is not visible to anyone. If no file can be used, it prints a note and returns
// [os.DevNull], since sessions matter more.
func DetachedLogPath(notes io.Writer) string {
	path := cmdflags.DefaultLogPath()
	if path == "" {
		return os.DevNull
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var file *os.File
		if file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			_ = file.Close()
			return path
		}
	}
	fmt.Fprintf(notes, "repl: the daemon runs without a log: %v\n", err)
	return os.DevNull
}

// ActualSocket returns where a daemon listens. It may differ from the requested socket, whose name
// another user may have.
func ActualSocket(pid int, socket string) string {
	if e, ok := daemonlock.ReadEntry(os.Getenv); ok && e.PID == pid {
		return e.Socket
	}
	return socket
}

func fetchInfo(ctx context.Context, socket string) (protocol.DaemonInfo, error) {
	c, err := client.Dial(ctx, client.Socket(socket))
	if err != nil {
		return protocol.DaemonInfo{}, err
	}
	defer c.Close()
	return c.DaemonInfo(ctx)
}
