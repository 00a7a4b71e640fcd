package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
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

	// maxPreambleBytes bounds the foreign output of a command, in bytes: before the greeting,
	// and between lines of the daemon.
	maxPreambleBytes = 64 << 10

	// maxQuotedBytes bounds how much of that output an error quotes.
	maxQuotedBytes = 1 << 10

	// A corrupted connection is made again, but at most maxCorruptions times in
	// corruptionWindow.
	maxCorruptions   = 3
	corruptionWindow = time.Minute

	// pingsPerKeepAlive is the number of pings that a client sends in
	// [CommandDialer.KeepAlive].
	pingsPerKeepAlive = 10

	// stderrTimeout bounds the wait for the rest of a command's stderr after its output has
	// ended.
	stderrTimeout = 5 * time.Second
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

	// KeepAlive makes repl bridge exit when nothing arrives for this long; 0 means never. It is
	// at least a second. A [Client] sends something ten times as often, idle or not; without a
	// Client the caller of Dial must do so.
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

// A corruption records a line of other output that arrived inside a message of a connection.
type corruption struct {
	at   time.Time
	line string
}

// A CommandError is the cause of an error of [CommandDialer.Dial] if the command has exited.
type CommandError struct {
	Status    int  // its exit status; -1 after a signal
	NoProgram bool // the remote program is missing or cannot be run
	text      string
}

// Error says how the command ended, and what it printed.
func (e *CommandError) Error() string { return e.text }

// A RefusedError is the cause of an error of [CommandDialer.Dial] if the command connected but
// repl bridge reached no daemon there.
type RefusedError struct{ Greeting Greeting }

// Error returns the error in the greeting.
func (e *RefusedError) Error() string { return e.Greeting.Error }

// String implements Dialer.
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

// Dial implements Dialer. The connection has a method Greeting. If the remote program is
// missing, InstallProgram is called, once.
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
		return &commandConn{Process: p, command: c, greeting: g}, nil
	}
	unwatch()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, c.unreachableError(c.withFailureDetail(context.WithoutCancel(ctx), c.explainFailure(p, heard, err)))
}

// greetingContext ends ctx when no greeting has come for a while. A user who is prompted has more
// time.
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

// PendingPrompt says what the connection attempt waits for; "" if that is the remote end.
func (c *CommandDialer) PendingPrompt() string {
	if c.LastPrompt == nil || time.Since(c.LastPrompt()) > time.Second {
		return ""
	}
	return c.Prefix[0] + " asks the user a question, on a page in their browser"
}

// withFailureDetail adds the state of the remote to an error.
func (c *CommandDialer) withFailureDetail(ctx context.Context, why error) error {
	if c.DescribeFailure == nil {
		return why
	}
	return fmt.Errorf("%w; %s", why, plainText(c.DescribeFailure(ctx)))
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

// StopPrompting makes the command neither prompt nor print at the terminal any more: the user
// is in a session now.
func (c *CommandDialer) StopPrompting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Terminal, c.Stderr = nil, nil
}

// finalError returns an error that a retry cannot fix: it has no cause.
func (c *CommandDialer) finalError(err error) error {
	return &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf("%s cannot be reached: %v", c, err)}
}

func (c *CommandDialer) unreachableError(err error) error {
	return &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf("%s cannot be reached: %v", c, err), Cause: err}
}

// refusedError returns the error for a remote end that reaches no daemon.
func (c *CommandDialer) refusedError(g Greeting) error {
	kind := g.Kind
	if kind == "" {
		kind = session.KindUnreachable
	}
	return &session.Error{Kind: kind, Message: fmt.Sprintf("%s: %s", c, g.Error), Cause: &RefusedError{g}}
}

func (c *CommandDialer) startError(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("program %q not found on this machine", c.Prefix[0])
	}
	return fmt.Errorf("it cannot be started: %w", err)
}

// explainFailure explains why there was no greeting. It ends the command.
func (c *CommandDialer) explainFailure(p *transportcmd.Process, heard *preamble, why error) error {
	if errors.Is(why, io.EOF) { // the command is about to exit, and its status says more
		select {
		case <-p.Done():
		case <-time.After(stderrTimeout):
		}
	}
	status := p.ExitState()
	p.Terminate()
	p.MarkReady() // even if it could not be killed
	said := quoteOutput("it said", p.Stderr()) + quoteOutput("it printed", heard.lastText())
	if !errors.Is(why, io.EOF) || status == nil {
		if errors.Is(why, io.EOF) {
			why = errors.New("the command closed its output")
		}
		return fmt.Errorf("%w%s", why, said)
	}
	e := &CommandError{Status: status.ExitCode(), NoProgram: transportcmd.IsNotFound(status.ExitCode(), p.Stderr(), c.programName())}
	e.text = fmt.Sprintf("the command ended with %s%s%s", exitDescription(status), c.statusMeaning(e.Status), said)
	if advice := transportcmd.FailureHint(c.Prefix, p.Stderr()); advice != "" {
		e.text += "; " + advice
	}
	return e
}

// exitDescription describes how a command ended.
func exitDescription(s *os.ProcessState) string {
	if s.ExitCode() >= 0 {
		return fmt.Sprintf("status %d", s.ExitCode())
	}
	return s.String() // "signal: killed"
}

// statusMeaning explains an exit status in words.
func (c *CommandDialer) statusMeaning(status int) string {
	program := c.programName()
	switch status {
	case 0:
		return ", without a greeting of repl bridge: does it run the words that follow it?"
	case 126:
		return fmt.Sprintf(": the remote %s cannot be run", program)
	case 127:
		return fmt.Sprintf(": %s was not found there", program)
	case 255:
		return ", as ssh does when it cannot connect or log in"
	}
	return ""
}

// quoteOutput quotes output of the command for an error.
func quoteOutput(what, text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("; %s: %s", what, plainText(text))
}

// plainText joins the lines of a text, without control characters that would affect a terminal.
func plainText(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
				return -1
			}
			return r
		}, l))
	}
	return strings.Join(lines, " | ")
}

// ---- foreign output

// A preamble is the output before the greeting.
type preamble struct {
	bytes int
	text  []byte // its end
}

// awaitGreeting reads up to the greeting.
func (p *preamble) awaitGreeting(in *bufio.Reader, nonce string) (Greeting, error) {
	for {
		line, err := readLine(in)
		if err == nil {
			if g, ok, err := parseGreeting(line, nonce); ok {
				return g, err
			}
		}
		p.bytes += len(line)
		p.text = append(p.text, line...)
		p.text = p.text[max(0, len(p.text)-maxQuotedBytes):]
		switch {
		case err != nil:
			return Greeting{}, err
		case p.bytes > maxPreambleBytes:
			return Greeting{}, fmt.Errorf("it printed more than %d bytes, but no greeting of repl bridge", maxPreambleBytes)
		}
	}
}

func (p *preamble) lastText() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(p.text), "?"))
}

// readLine reads a line, up to the maximum length of a greeting.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxGreetingBytes {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return string(line), err
		}
	}
}

// recordCorruption records that a connection was corrupted.
func (c *CommandDialer) recordCorruption(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corruptions = append(c.corruptions, corruption{time.Now(), line})
	c.corruptions = c.corruptions[max(0, len(c.corruptions)-maxCorruptions):]
}

// checkCorruptions returns an error if other programs print into the connection again and
// again.
func (c *CommandDialer) checkCorruptions(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.corruptions) < maxCorruptions || now.Sub(c.corruptions[0].at) > corruptionWindow {
		return nil
	}
	return fmt.Errorf("%d times within a minute another program printed into the connection, most recently %s; the start-up files of the remote account must print nothing",
		maxCorruptions, plainText(c.corruptions[maxCorruptions-1].line))
}

// ---- the connection

// A commandConn is a connection over the standard streams of a transport command.
type commandConn struct {
	*transportcmd.Process
	command      *CommandDialer
	greeting     Greeting
	skippedBytes int  // foreign bytes between the daemon's lines
	corrupted    bool // foreign output was inside one of the daemon's lines
}

// Greeting returns the greeting of repl bridge.
func (c *commandConn) Greeting() Greeting { return c.greeting }

// Read implements net.Conn. When the command exits, the error has its last output, and is also
// io.EOF.
func (c *commandConn) Read(b []byte) (int, error) {
	n, err := c.Process.Read(b)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	select {
	case <-c.Done():
	case <-time.After(stderrTimeout):
		return 0, err
	}
	status := c.ExitState()
	if status.Success() && c.Stderr() == "" {
		return 0, err
	}
	return 0, &endError{fmt.Sprintf("%s ended with %s%s", c.command, exitDescription(status), quoteOutput("it said", c.Stderr()))}
}

// An endError is the end of a connection with its reason.
type endError struct{ text string }

func (e *endError) Error() string   { return e.text }
func (e *endError) Is(t error) bool { return t == io.EOF }

// Close implements net.Conn. It does not wait for the command to exit; Terminate does.
func (c *commandConn) Close() error {
	go c.Terminate()
	return nil
}

// canSkip reports whether a line that is not a message can be skipped. It cannot if it may
// contain part of a message, which would be lost: messages begin with a brace.
func (c *commandConn) canSkip(line []byte) bool {
	c.skippedBytes += len(line) + 1
	if c.corrupted { // the connection has ended, and this is its rest
		return true
	}
	if len(line) > 0 && c.skippedBytes <= maxPreambleBytes && !strings.Contains(string(line), "{") {
		return true
	}
	c.corrupted = true
	c.command.recordCorruption(string(line[:min(len(line), maxQuotedBytes)]))
	return false
}

func (c *commandConn) LocalAddr() net.Addr               { return commandAddr("here") }
func (c *commandConn) RemoteAddr() net.Addr              { return commandAddr(c.command.String()) }
func (c *commandConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }
func (c *commandConn) SetWriteDeadline(t time.Time) error {
	return c.SetDeadline(t)
}

type commandAddr string

func (commandAddr) Network() string  { return "command" }
func (a commandAddr) String() string { return string(a) }
