package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/transportcmd"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// greetingTimeout is the default of [CommandDialer.GreetingTimeout], and minPromptTimeout
	// its minimum where the user may be prompted.
	greetingTimeout  = 20 * time.Second
	minPromptTimeout = 2 * time.Minute

	// dialRetryInterval is the pause between two attempts to reach a remote that is still
	// starting.
	dialRetryInterval = time.Second
)

// A CommandDialer is a transport command that connects to a daemon on another machine or in a
// container: a command such as "ssh gpu1" that runs "repl bridge" there. It runs without a
// shell and ends with the connection, together with all its descendants. The fields are set
// before use.
type CommandDialer struct {
	Name        string   // name of the remote, for users; may be ""
	Prefix      []string // the words of the command; the first is a local program
	Program     string   // the remote program; "" is repl on the remote PATH
	Socket      string   // the daemon's remote socket; "" is the user's default one
	StartDaemon bool     // a daemon is started if none is running

	// LoginEnv starts the daemon with the environment of a login.
	LoginEnv bool

	// GreetingTimeout bounds the time until repl bridge sends its greeting; 0 is 20 s. It is at
	// least 2 min where the user may be prompted at Terminal.
	GreetingTimeout time.Duration

	// RetryUntil is the time until which failed attempts are repeated, once a second: a job that
	// was just submitted waits in a queue before its daemon starts. It is zero for a remote that
	// already exists.
	RetryUntil time.Time

	// KeepAlive makes repl bridge exit when nothing arrives for this long; 0 means never. It is at
	// least a second. Package client sends something ten times in that period, even if it is idle;
	// any other caller of Dial must do the same.
	KeepAlive time.Duration

	Env []string // environment of the command; nil is that of this process

	// Terminal is the user's terminal, if the command may prompt there. Otherwise it has no
	// terminal.
	Terminal *os.File

	// Stderr also gets the command's stderr until the connection is ready, as it is written; may
	// be nil.
	Stderr io.Writer

	// DescribeFailure returns the state of a remote that cannot be reached; may be nil.
	DescribeFailure func(context.Context) string

	// InstallProgram is called when the remote program is missing. It installs the program and
	// returns its path; may be nil.
	InstallProgram func(context.Context) (program string, err error)

	// LastPrompt returns when the command last prompted the user, which is now while it waits
	// for the answer: the timeout starts again then. nil means that it never prompts.
	LastPrompt func() time.Time

	mu               sync.Mutex
	installedProgram string       // guarded by mu: replaces Program
	corruptions      []corruption // guarded by mu: the most recent ones
}

// String describes the connection for users, as in "gpu (ssh gpu1)"; see client.Dialer.
func (c *CommandDialer) String() string {
	words := transportcmd.JoinWords(c.Prefix)
	if c.Name == "" {
		return words
	}
	return c.Name + " (" + words + ")"
}

// DisplayName names the remote in messages, as in "the connection to gpu".
func (c *CommandDialer) DisplayName() string {
	if c.Name != "" {
		return c.Name
	}
	return transportcmd.JoinWords(c.Prefix)
}

// Dial runs the command and waits for the greeting. The connection is a [*CommandConn]. If the
// remote program is missing, InstallProgram is called, once. An error is of
// [session.KindUnreachable], or of the kind in the greeting: its cause is a [*CommandError], a
// [*RefusedError] or another error, and nil if another attempt would not help. When ctx ends, so
// does the command.
func (c *CommandDialer) Dial(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := c.dialWithInstall(ctx)
		if session.KindOf(err) != session.KindUnreachable || time.Until(c.RetryUntil) < dialRetryInterval {
			return conn, err
		}
		select {
		case <-time.After(dialRetryInterval):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (c *CommandDialer) dialWithInstall(ctx context.Context) (net.Conn, error) {
	conn, err := c.dialOnce(ctx)
	if ended, ok := errors.AsType[*CommandError](err); !ok || !ended.NoProgram || c.InstallProgram == nil {
		return conn, err
	}
	program, failed := c.InstallProgram(ctx)
	if failed != nil {
		return nil, c.unreachableError(fmt.Errorf("%s was not found there; %w", c.programName(), failed))
	}
	c.mu.Lock()
	c.installedProgram = program
	c.mu.Unlock()
	return c.dialOnce(ctx)
}

// programName returns the name or path of the remote program.
func (c *CommandDialer) programName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.installedProgram, c.Program, "repl")
}

// dialOnce runs the command once.
func (c *CommandDialer) dialOnce(ctx context.Context) (net.Conn, error) {
	words, nonce, err := c.commandLine()
	if err != nil {
		return nil, c.finalError(err)
	}
	if err := c.checkCorruptions(time.Now()); err != nil {
		return nil, c.finalError(err)
	}
	wait := c.GreetingTimeout
	if wait <= 0 {
		wait = greetingTimeout
	}
	c.mu.Lock()
	terminal, stderr := c.Terminal, c.Stderr
	c.mu.Unlock()
	if terminal != nil {
		wait = max(wait, minPromptTimeout)
	}
	p, err := transportcmd.Command{Words: words, Env: c.Env, Terminal: terminal, Stderr: stderr}.Start()
	if err != nil {
		return nil, c.finalError(c.startError(err))
	}
	ctx, stop := c.greetingContext(ctx, wait)
	defer stop()
	heard := &preamble{}
	unwatch := context.AfterFunc(ctx, p.Terminate)
	g, err := heard.awaitGreeting(p.LineReader(), nonce)
	if err == nil && unwatch() {
		p.MarkReady()
		if g.Error != "" {
			p.Terminate()
			return nil, c.refusedError(g)
		}
		return &CommandConn{Process: p, command: c, greeting: g}, nil
	}
	unwatch()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, c.unreachableError(c.withFailureDetail(context.WithoutCancel(ctx), c.explainFailure(p, heard, err)))
}

// greetingContext ends ctx when no greeting has come for a while. It allows more time while the
// user is prompted.
func (c *CommandDialer) greetingContext(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	silent := fmt.Errorf("no answer for %s", wait)
	if c.LastPrompt == nil {
		return context.WithTimeoutCause(ctx, wait, silent)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			rest := wait - time.Since(c.LastPrompt())
			if rest <= 0 {
				cancel(silent)
				return
			}
			timer.Reset(rest)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// PendingPrompt describes the prompt for which the connection attempt waits; "" without a prompt.
func (c *CommandDialer) PendingPrompt() string {
	if c.LastPrompt == nil || time.Since(c.LastPrompt()) > time.Second {
		return ""
	}
	return c.Prefix[0] + " asks the user a question, on a page in their browser"
}

// commandLine returns the words of the whole command.
func (c *CommandDialer) commandLine() (words []string, nonce string, err error) {
	if len(c.Prefix) == 0 {
		return nil, "", errors.New("the remote has no transport command")
	}
	nonce = rand.Text()
	ours := []string{c.programName(), "bridge", "--nonce", nonce}
	if c.Socket != "" {
		ours = append(ours, "--socket", c.Socket)
	}
	if !c.StartDaemon {
		ours = append(ours, "--start=never")
	}
	if c.LoginEnv {
		ours = append(ours, "--login-env")
	}
	if c.KeepAlive > 0 {
		ours = append(ours, "--silence-timeout", c.KeepAlive.String())
	}
	for _, w := range ours {
		if !transportcmd.IsPlainWord(w) {
			return nil, "", fmt.Errorf("%q cannot be sent to the remote shell, which may change it; use letters, digits and _ . / = - only", w)
		}
	}
	return append(append([]string(nil), c.Prefix...), ours...), nonce, nil
}

// StopPrompting stops the command from prompting and printing at the terminal, because the user is
// now in a session.
func (c *CommandDialer) StopPrompting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Terminal, c.Stderr = nil, nil
}
