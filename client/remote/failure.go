package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/transportcmd"
	"github.com/turnstone-repl/turnstone/session"
)

// stderrTimeout bounds the wait for the rest of a command's stderr after its output has ended.
const stderrTimeout = 5 * time.Second

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

// withFailureDetail adds the state of the remote to an error.
func (c *CommandDialer) withFailureDetail(ctx context.Context, why error) error {
	if c.DescribeFailure == nil {
		return why
	}
	return fmt.Errorf("%w; %s", why, plainText(c.DescribeFailure(ctx)))
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
