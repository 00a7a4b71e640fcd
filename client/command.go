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

	"github.com/turnstone-repl/turnstone/internal/prefix"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// greetTime is [Command.Wait] if it is 0, and promptTime the least of it where a person
	// may be asked.
	greetTime  = 20 * time.Second
	promptTime = 2 * time.Minute

	// comesPause is that between two tries of a place that comes.
	comesPause = time.Second

	// maxNoise bounds what a command may print that is not ours, in bytes: before the greeting,
	// and between lines of the daemon.
	maxNoise = 64 << 10

	// keptNoise bounds how much of it an error quotes.
	keptNoise = 1 << 10

	// A connection with something else in it is made again, but not more often than spoiledMost
	// times in spoiledTime.
	spoiledMost = 3
	spoiledTime = time.Minute

	// signs is how often a client says something in [Command.Alive].
	signs = 10

	// lastWords bounds the wait for what a command says when its output has ended.
	lastWords = 5 * time.Second
)

// A Command is the way to a daemon on another machine or in a container: a command such as
// "ssh gpu1", that runs "repl dial" there. It runs without a shell and ends with the
// connection, with everything that it has started. The fields are set before use.
type Command struct {
	Name    string   // of the place, for people; "" has none
	Prefix  []string // the words of the command; the first is a program here
	Program string   // the program there; "" is repl on PATH there
	Socket  string   // the daemon's socket there; "" is the user's usual one
	Start   bool     // a daemon that is not there is started

	// Login has the daemon that is started get the environment of a login.
	Login bool

	// Wait bounds the time until repl dial says something; 0 is 20 s. It is at least 2 min where
	// a person at Terminal may be asked something.
	Wait time.Duration

	// Comes is until when the way is tried again after an error, once a second: a job that was
	// started just now waits, and then its daemon starts. It is zero for a place that is there.
	Comes time.Time

	// Alive has repl dial end when nothing comes for this long; 0 never. It is at least a second.
	// A [Client] says something ten times as often, idle or not; without one that is left to who
	// dials.
	Alive time.Duration

	Env []string // of the command; nil is that of this process

	// Terminal is the person's, if the command may ask there. Otherwise it has no terminal.
	Terminal *os.File

	// Stderr also gets what the command says before the connection is there, as it comes; nil
	// is nobody.
	Stderr io.Writer

	// After says what became of the place, when it cannot be reached; nil is nobody.
	After func(context.Context) string

	// Bring is called when the program is not there. It brings it and says where it is then; nil
	// is nobody.
	Bring func(context.Context) (program string, err error)

	// Asked says when the command has last asked a person something, which is now while it waits
	// for the answer: the wait begins anew then. nil: it asks nobody.
	Asked func() time.Time

	mu      sync.Mutex
	brought string  // guarded by mu: the program, in place of Program
	spoiled []spoil // guarded by mu: the last ones
}

// A spoil is one time that something else was in a connection.
type spoil struct {
	at   time.Time
	line string
}

// A CommandError is the cause of an error of [Command.Dial] when the command has ended.
type CommandError struct {
	Status    int  // its exit status; -1 after a signal
	NoProgram bool // the program is not there, or cannot be run there
	text      string
}

func (e *CommandError) Error() string { return e.text }

// A RefusedError is the cause of an error of [Command.Dial] when the command got through and repl
// dial reached no daemon there.
type RefusedError struct{ Greeting Greeting }

func (e *RefusedError) Error() string { return e.Greeting.Error }

// String implements Dialer.
func (c *Command) String() string {
	words := prefix.Join(c.Prefix)
	if c.Name == "" {
		return words
	}
	return c.Name + " (" + words + ")"
}

// Place names the place for messages, as in "the link to gpu".
func (c *Command) Place() string {
	if c.Name != "" {
		return c.Name
	}
	return prefix.Join(c.Prefix)
}

// Dial implements Dialer. The connection has a method Greeting. Where the program is not there,
// Bring is asked for it, once.
func (c *Command) Dial(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := c.bringAndDial(ctx)
		if session.KindOf(err) != KindUnreachable || time.Until(c.Comes) < comesPause {
			return conn, err
		}
		select {
		case <-time.After(comesPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (c *Command) bringAndDial(ctx context.Context) (net.Conn, error) {
	conn, err := c.dialOnce(ctx)
	if ended, ok := errors.AsType[*CommandError](err); !ok || !ended.NoProgram || c.Bring == nil {
		return conn, err
	}
	program, failed := c.Bring(ctx)
	if failed != nil {
		return nil, c.unreached(fmt.Errorf("there is no %s there; %w", c.program(), failed))
	}
	c.mu.Lock()
	c.brought = program
	c.mu.Unlock()
	return c.dialOnce(ctx)
}

// program is the word for the program there.
func (c *Command) program() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.brought, c.Program, "repl")
}

// dialOnce runs the command once.
func (c *Command) dialOnce(ctx context.Context) (net.Conn, error) {
	words, nonce, err := c.words()
	if err != nil {
		return nil, c.final(err)
	}
	if err := c.checkSpoiled(time.Now()); err != nil {
		return nil, c.final(err)
	}
	wait := c.Wait
	if wait <= 0 {
		wait = greetTime
	}
	c.mu.Lock()
	terminal, stderr := c.Terminal, c.Stderr
	c.mu.Unlock()
	if terminal != nil {
		wait = max(wait, promptTime)
	}
	p, err := prefix.Command{Words: words, Env: c.Env, Terminal: terminal, Stderr: stderr}.Start()
	if err != nil {
		return nil, c.final(c.startError(err))
	}
	ctx, stop := c.bounded(ctx, wait)
	defer stop()
	heard := &noise{}
	unwatch := context.AfterFunc(ctx, p.End)
	g, err := heard.awaitGreeting(p.Lines(), nonce)
	if err == nil && unwatch() {
		p.Ready()
		if g.Error != "" {
			p.End()
			return nil, c.refused(g)
		}
		return &commandConn{Process: p, to: c, greeting: g}, nil
	}
	unwatch()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, c.unreached(c.withAfter(context.WithoutCancel(ctx), c.explained(p, heard, err)))
}

// bounded ends ctx when nothing has come for a while. A person who is asked has more time.
func (c *Command) bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	silent := fmt.Errorf("nothing that answers came for %s", wait)
	if c.Asked == nil {
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
			rest := wait - time.Since(c.Asked())
			if rest <= 0 {
				cancel(silent)
				return
			}
			timer.Reset(rest)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Waiting says what the way waits for now; "" if that is the far side.
func (c *Command) Waiting() string {
	if c.Asked == nil || time.Since(c.Asked()) > time.Second {
		return ""
	}
	return c.Prefix[0] + " asks the user something, on a page in their browser"
}

// withAfter adds what became of the place.
func (c *Command) withAfter(ctx context.Context, why error) error {
	if c.After == nil {
		return why
	}
	return fmt.Errorf("%w; %s", why, plainText(c.After(ctx)))
}

// words are those of the whole command.
func (c *Command) words() (words []string, nonce string, err error) {
	if len(c.Prefix) == 0 {
		return nil, "", errors.New("there is no command that leads there")
	}
	nonce = rand.Text()
	ours := []string{c.program(), "dial", "--nonce", nonce}
	if c.Socket != "" {
		ours = append(ours, "--socket", c.Socket)
	}
	if !c.Start {
		ours = append(ours, "--start=never")
	}
	if c.Login {
		ours = append(ours, "--login")
	}
	if c.Alive > 0 {
		ours = append(ours, "--alive", c.Alive.String())
	}
	for _, w := range ours {
		if !prefix.IsPlain(w) {
			return nil, "", fmt.Errorf("%q cannot be said to the far side: some shells there would change it; use letters, digits and _ . / = - only", w)
		}
	}
	return append(append([]string(nil), c.Prefix...), ours...), nonce, nil
}

// Unattended has the command ask nothing more at the terminal and show nothing there: the person
// is in a session now.
func (c *Command) Unattended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Terminal, c.Stderr = nil, nil
}

// final is the error of a way that will not be better the next time: it has no cause.
func (c *Command) final(err error) error {
	return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("%s cannot be reached: %v", c, err)}
}

func (c *Command) unreached(err error) error {
	return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("%s cannot be reached: %v", c, err), Cause: err}
}

// refused is the error of a far side that has no daemon for us.
func (c *Command) refused(g Greeting) error {
	kind := g.Kind
	if kind == "" {
		kind = KindUnreachable
	}
	return &session.Error{Kind: kind, Message: fmt.Sprintf("%s: %s", c, g.Error), Cause: &RefusedError{g}}
}

func (c *Command) startError(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("there is no program %q on this machine", c.Prefix[0])
	}
	return fmt.Errorf("it does not start: %w", err)
}

// explained says in words why there was no greeting. It ends the command.
func (c *Command) explained(p *prefix.Process, heard *noise, why error) error {
	if errors.Is(why, io.EOF) { // then it is about to end, and knows more
		select {
		case <-p.Ended():
		case <-time.After(lastWords):
		}
	}
	status := p.Status()
	p.End()
	p.Ready() // also if it could not be ended
	said := quoted("it said", p.Said()) + quoted("it printed", heard.last())
	if !errors.Is(why, io.EOF) || status == nil {
		if errors.Is(why, io.EOF) {
			why = errors.New("it closed its output")
		}
		return fmt.Errorf("%w%s", why, said)
	}
	e := &CommandError{Status: status.ExitCode(), NoProgram: prefix.NotFound(status.ExitCode(), p.Said(), c.program())}
	e.text = fmt.Sprintf("the command ended with %s%s%s", endOf(status), c.meaning(e.Status), said)
	if advice := prefix.Advice(c.Prefix, p.Said()); advice != "" {
		e.text += "; " + advice
	}
	return e
}

// endOf says how a command ended.
func endOf(s *os.ProcessState) string {
	if s.ExitCode() >= 0 {
		return fmt.Sprintf("status %d", s.ExitCode())
	}
	return s.String() // "signal: killed"
}

// meaning says in words what an exit status means.
func (c *Command) meaning(status int) string {
	program := c.program()
	switch status {
	case 0:
		return ", without a word of repl dial: does it run the words that follow it?"
	case 126:
		return fmt.Sprintf(": %s there cannot be run", program)
	case 127:
		return fmt.Sprintf(": there is no %s there", program)
	case 255:
		return ", as ssh does when it cannot connect or log in"
	}
	return ""
}

// quoted is a text of the command within an error.
func quoted(what, text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("; %s: %s", what, plainText(text))
}

// plainText is a text of several lines on one, without what would act on a terminal.
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

// ---- what is not ours

// A noise is what comes before the greeting.
type noise struct {
	bytes int
	text  []byte // the last of it
}

// awaitGreeting reads up to the greeting.
func (n *noise) awaitGreeting(in *bufio.Reader, nonce string) (Greeting, error) {
	for {
		line, err := readLine(in)
		if err == nil {
			if g, ok, err := greetingIn(line, nonce); ok {
				return g, err
			}
		}
		n.bytes += len(line)
		n.text = append(n.text, line...)
		n.text = n.text[max(0, len(n.text)-keptNoise):]
		switch {
		case err != nil:
			return Greeting{}, err
		case n.bytes > maxNoise:
			return Greeting{}, fmt.Errorf("it printed more than %d bytes, and no greeting of repl dial", maxNoise)
		}
	}
}

func (n *noise) last() string { return strings.TrimSpace(strings.ToValidUTF8(string(n.text), "?")) }

// readLine reads a line, or as much of it as a greeting may have.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxGreeting {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return string(line), err
		}
	}
}

// spoil remembers that something else was in a connection.
func (c *Command) spoil(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoiled = append(c.spoiled, spoil{time.Now(), line})
	c.spoiled = c.spoiled[max(0, len(c.spoiled)-spoiledMost):]
}

// checkSpoiled refuses a way on which something else speaks again and again.
func (c *Command) checkSpoiled(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spoiled) < spoiledMost || now.Sub(c.spoiled[0].at) > spoiledTime {
		return nil
	}
	return fmt.Errorf("%d times within a minute something else printed into the connection, at last %s; have the start files of the account there print nothing",
		spoiledMost, plainText(c.spoiled[spoiledMost-1].line))
}

// ---- the connection

// A commandConn is a connection over the streams of a command.
type commandConn struct {
	*prefix.Process
	to       *Command
	greeting Greeting
	noise    int  // bytes between the daemon's lines
	spoiled  bool // something else was in one of them
}

// Greeting is what repl dial said.
func (c *commandConn) Greeting() Greeting { return c.greeting }

// Read implements net.Conn. The end of the command is an error with its last words, which is
// also io.EOF.
func (c *commandConn) Read(b []byte) (int, error) {
	n, err := c.Process.Read(b)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	select {
	case <-c.Ended():
	case <-time.After(lastWords):
		return 0, err
	}
	status := c.Status()
	if status.Success() && c.Said() == "" {
		return 0, err
	}
	return 0, &endError{fmt.Sprintf("%s ended with %s%s", c.to, endOf(status), quoted("it said", c.Said()))}
}

// An endError is the end of a connection, with its reason.
type endError struct{ text string }

func (e *endError) Error() string   { return e.text }
func (e *endError) Is(t error) bool { return t == io.EOF }

// Close implements net.Conn. It does not wait for the end of the command; End does.
func (c *commandConn) Close() error {
	go c.End()
	return nil
}

// pass reports whether a line that is no message can be passed over. It can as long as no part
// of a message may be in it, which would be lost: they all begin with a brace.
func (c *commandConn) pass(line []byte) bool {
	c.noise += len(line) + 1
	if c.spoiled { // the connection has ended, and this is the rest
		return true
	}
	if len(line) > 0 && c.noise <= maxNoise && !strings.Contains(string(line), "{") {
		return true
	}
	c.spoiled = true
	c.to.spoil(string(line[:min(len(line), keptNoise)]))
	return false
}

func (c *commandConn) LocalAddr() net.Addr               { return commandAddr("here") }
func (c *commandConn) RemoteAddr() net.Addr              { return commandAddr(c.to.String()) }
func (c *commandConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }
func (c *commandConn) SetWriteDeadline(t time.Time) error {
	return c.SetDeadline(t)
}

type commandAddr string

func (commandAddr) Network() string  { return "command" }
func (a commandAddr) String() string { return string(a) }
