package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

const (
	// maxNoiseBytes bounds what a far side may print that is not for us, in bytes, and shownNoiseBytes how
	// much of it is kept for errors.
	maxNoiseBytes   = 64 << 10
	shownNoiseBytes = 1 << 10

	// exitTimeout is how long the script of the far side has to end by itself.
	exitTimeout = 5 * time.Second
)

// A shellDialogue is a conversation with the shell of a far side, over the streams of a command.
type shellDialogue struct {
	*transportcmd.Process
	words      []string
	nonce      string
	noise      []byte // the last of what was not for us
	noiseBytes int    // bytes of noise
	lastWord   string // the last that was for us

	ctx       context.Context
	cancel    context.CancelCauseFunc
	lastAsked func() time.Time
	timer     *time.Timer

	mu          sync.Mutex
	currentStep string        // guarded by mu: what it does when the timer ends
	stepLimit   time.Duration // guarded by mu
}

// startDialogue starts the command with a shell behind it.
func startDialogue(ctx context.Context, o Options, nonce string) (*shellDialogue, error) {
	if len(o.Prefix) == 0 {
		return nil, errors.New("the place has no command that leads there")
	}
	p, err := transportcmd.Command{Words: append(slices.Clone(o.Prefix), "sh"), Env: o.Env, Terminal: o.Terminal, Stderr: o.Stderr}.Start()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", transportcmd.JoinWords(o.Prefix), err)
	}
	t := &shellDialogue{Process: p, words: o.Prefix, nonce: nonce, lastAsked: o.LastAsked}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(t.ctx, p.End)
	t.timer = time.AfterFunc(time.Hour, t.stepExpired)
	return t, nil
}

// limitStep gives the far side d for what it has to do next, in place of the former bound.
func (t *shellDialogue) limitStep(d time.Duration, doing string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.currentStep, t.stepLimit = doing, d
	t.timer.Reset(d)
}

func (t *shellDialogue) stepExpired() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lastAsked != nil {
		if rest := t.stepLimit - time.Since(t.lastAsked()); rest > 0 {
			t.timer.Reset(rest)
			return
		}
	}
	t.cancel(fmt.Errorf("the far side %s for %s", t.currentStep, t.stepLimit))
}

// endCommand ends the command and everything that it started, once the script of the far side had the
// time to end by itself and to clean up.
func (t *shellDialogue) endCommand() {
	t.timer.Stop()
	_ = t.CloseWrite()
	t.hasExited()
	t.cancel(nil)
	t.End()
}

// hasExited waits a moment for the end of the command.
func (t *shellDialogue) hasExited() bool {
	timer := time.NewTimer(exitTimeout)
	defer timer.Stop()
	select {
	case <-t.Done():
		return true
	case <-timer.C:
		return false
	case <-t.ctx.Done():
		return false
	}
}

// errRemoteClosed means that the far side reads no more.
var errRemoteClosed = errors.New("the far side reads no more")

func (t *shellDialogue) sendData(data []byte) error {
	if _, err := t.Write(data); err != nil {
		return errRemoteClosed
	}
	return nil
}

// A refusalError is the far side's own word why it does not take the program.
type refusalError struct{ reason string }

func (r *refusalError) Error() string { return "the far side does not take the program: " + r.reason }

var errTerminal = errors.New("the command gives the far side a terminal, which changes what goes through it: use ssh -T, docker exec without -t")

// readReply waits for a line that is for us and begins with one of the words, separated by |, and
// returns the fields behind it, at least so many.
func (t *shellDialogue) readReply(words string, fields int) ([]string, error) {
	for {
		text, err := t.LineReader().ReadSlice('\n')
		line, ours := strings.CutPrefix(string(text), t.nonce+" ")
		if !ours {
			t.noise = append(t.noise, text...)
			t.noise = t.noise[max(0, len(t.noise)-shownNoiseBytes):]
			if t.noiseBytes += len(text); t.noiseBytes > maxNoiseBytes {
				return nil, fmt.Errorf("the far side prints more than %d KiB that are not for us: look at the start files of its shell", maxNoiseBytes>>10)
			}
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return nil, err
		case !ours:
			continue
		case strings.HasSuffix(line, "\r\n"):
			return nil, errTerminal
		}
		word, rest, _ := strings.Cut(printableText(strings.TrimSuffix(line, "\n")), " ")
		if word == "no" {
			return nil, &refusalError{rest}
		}
		got := strings.Fields(rest)
		if !strings.Contains("|"+words+"|", "|"+word+"|") || len(got) < fields {
			return nil, fmt.Errorf("the far side says %q, which nobody asked for", word+" "+rest)
		}
		t.lastWord = word
		return got, nil
	}
}

// describeFailure makes an error of what went wrong: the bound that was exceeded, or what the command
// said when it ended.
func (t *shellDialogue) describeFailure(err error) error {
	var no *refusalError
	if errors.As(err, &no) && t.ctx.Err() == nil {
		return err
	}
	// A write fails before the far side's reason was read.
	if t.ctx.Err() == nil && errors.Is(err, errRemoteClosed) {
		if _, said := t.readReply("", 0); errors.As(said, &no) {
			return said
		}
	}
	if cause := context.Cause(t.ctx); cause != nil {
		t.End()
		return t.quoteOutput(cause)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errRemoteClosed) {
		return err
	}
	_ = t.CloseWrite()
	if !t.hasExited() {
		return t.quoteOutput(errors.New("the far side has closed its output"))
	}
	said, status := t.Stderr(), t.ExitState()
	switch {
	case strings.Contains(said, "is not recognized"):
		err = errors.New(windowsHint)
	case transportcmd.IsNotFound(status.ExitCode(), said, "sh"):
		err = errors.New("the far side has no sh, so repl has to be copied there by hand, and named in the place: repl = \"PATH\"")
	default:
		err = fmt.Errorf("%s ended with %s before the program was there", transportcmd.JoinWords(t.words), status)
	}
	return t.quoteOutput(err)
}

// quoteOutput adds what the command and the far side have printed.
func (t *shellDialogue) quoteOutput(err error) error {
	for _, w := range []struct{ from, text string }{{"it said", t.Stderr()}, {"it printed", string(t.noise)}} {
		if text := strings.Join(strings.Fields(printableText(w.text)), " "); text != "" {
			err = fmt.Errorf("%w; %s: %s", err, w.from, text)
		}
	}
	if advice := transportcmd.FailureHint(t.words, t.Stderr()); advice != "" {
		err = fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// printableText takes out what could move a cursor.
func printableText(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
}
