package bootstrap

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

	"github.com/turnstone-repl/turnstone/internal/prefix"
)

const (
	// maxNoise bounds what a far side may print that is not for us, in bytes, and keptNoise how
	// much of it is kept for errors.
	maxNoise  = 64 << 10
	keptNoise = 1 << 10

	// leaveTime is how long the script of the far side has to end by itself.
	leaveTime = 5 * time.Second
)

// A talk is a conversation with the shell of a far side, over the streams of a command.
type talk struct {
	*prefix.Process
	words []string
	nonce string
	noise []byte // the last of what was not for us
	heard int    // bytes of noise
	word  string // the last that was for us

	ctx    context.Context
	cancel context.CancelCauseFunc
	asked  func() time.Time
	timer  *time.Timer

	mu    sync.Mutex
	doing string        // guarded by mu: what it does when the timer ends
	limit time.Duration // guarded by mu
}

// begin starts the command with a shell behind it.
func begin(ctx context.Context, o Options, nonce string) (*talk, error) {
	if len(o.Prefix) == 0 {
		return nil, errors.New("the place has no command that leads there")
	}
	p, err := prefix.Command{Words: append(slices.Clone(o.Prefix), "sh"), Env: o.Env, Terminal: o.Terminal, Stderr: o.Stderr}.Start()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", prefix.JoinWords(o.Prefix), err)
	}
	t := &talk{Process: p, words: o.Prefix, nonce: nonce, asked: o.Asked}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(t.ctx, p.End)
	t.timer = time.AfterFunc(time.Hour, t.expire)
	return t, nil
}

// bound gives the far side d for what it has to do next, in place of the former bound.
func (t *talk) bound(d time.Duration, doing string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doing, t.limit = doing, d
	t.timer.Reset(d)
}

func (t *talk) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked != nil {
		if rest := t.limit - time.Since(t.asked()); rest > 0 {
			t.timer.Reset(rest)
			return
		}
	}
	t.cancel(fmt.Errorf("the far side %s for %s", t.doing, t.limit))
}

// end ends the command and everything that it started, once the script of the far side had the
// time to end by itself and to clean up.
func (t *talk) end() {
	t.timer.Stop()
	_ = t.CloseWrite()
	t.isEnded()
	t.cancel(nil)
	t.End()
}

// isEnded waits a moment for the end of the command.
func (t *talk) isEnded() bool {
	timer := time.NewTimer(leaveTime)
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

// errBroken means that the far side reads no more.
var errBroken = errors.New("the far side reads no more")

func (t *talk) send(data []byte) error {
	if _, err := t.Write(data); err != nil {
		return errBroken
	}
	return nil
}

// A refusal is the far side's own word why it does not take the program.
type refusal struct{ reason string }

func (r *refusal) Error() string { return "the far side does not take the program: " + r.reason }

var errTerminal = errors.New("the command gives the far side a terminal, which changes what goes through it: use ssh -T, docker exec without -t")

// next waits for a line that is for us and begins with one of the words, separated by |, and
// returns the fields behind it, at least so many.
func (t *talk) next(words string, fields int) ([]string, error) {
	for {
		text, err := t.LineReader().ReadSlice('\n')
		line, ours := strings.CutPrefix(string(text), t.nonce+" ")
		if !ours {
			t.noise = append(t.noise, text...)
			t.noise = t.noise[max(0, len(t.noise)-keptNoise):]
			if t.heard += len(text); t.heard > maxNoise {
				return nil, fmt.Errorf("the far side prints more than %d KiB that are not for us: look at the start files of its shell", maxNoise>>10)
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
		word, rest, _ := strings.Cut(printable(strings.TrimSuffix(line, "\n")), " ")
		if word == "no" {
			return nil, &refusal{rest}
		}
		got := strings.Fields(rest)
		if !strings.Contains("|"+words+"|", "|"+word+"|") || len(got) < fields {
			return nil, fmt.Errorf("the far side says %q, which nobody asked for", word+" "+rest)
		}
		t.word = word
		return got, nil
	}
}

// failure makes an error of what went wrong: the bound that was exceeded, or what the command
// said when it ended.
func (t *talk) failure(err error) error {
	var no *refusal
	if errors.As(err, &no) && t.ctx.Err() == nil {
		return err
	}
	// A write fails before the far side's reason was read.
	if t.ctx.Err() == nil && errors.Is(err, errBroken) {
		if _, said := t.next("", 0); errors.As(said, &no) {
			return said
		}
	}
	if cause := context.Cause(t.ctx); cause != nil {
		t.End()
		return t.quote(cause)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errBroken) {
		return err
	}
	_ = t.CloseWrite()
	if !t.isEnded() {
		return t.quote(errors.New("the far side has closed its output"))
	}
	said, status := t.Stderr(), t.ExitState()
	switch {
	case strings.Contains(said, "is not recognized"):
		err = errors.New(isWindows)
	case prefix.IsNotFound(status.ExitCode(), said, "sh"):
		err = errors.New("the far side has no sh, so repl has to be copied there by hand, and named in the place: repl = \"PATH\"")
	default:
		err = fmt.Errorf("%s ended with %s before the program was there", prefix.JoinWords(t.words), status)
	}
	return t.quote(err)
}

// quote adds what the command and the far side have printed.
func (t *talk) quote(err error) error {
	for _, w := range []struct{ from, text string }{{"it said", t.Stderr()}, {"it printed", string(t.noise)}} {
		if text := strings.Join(strings.Fields(printable(w.text)), " "); text != "" {
			err = fmt.Errorf("%w; %s: %s", err, w.from, text)
		}
	}
	if advice := prefix.FailureHint(t.words, t.Stderr()); advice != "" {
		err = fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// printable takes out what could move a cursor.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
}
