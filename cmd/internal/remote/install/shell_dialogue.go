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

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

const (
	// maxNoiseBytes bounds the foreign output of a remote end, in bytes, and shownNoiseBytes the
	// part of it in errors.
	maxNoiseBytes   = 64 << 10
	shownNoiseBytes = 1 << 10

	// exitTimeout is how long the remote script has to exit.
	exitTimeout = 5 * time.Second
)

// A shellDialogue is a conversation with a remote shell, over the streams of a command.
type shellDialogue struct {
	*transportcmd.Process
	words      []string
	nonce      string
	noise      []byte // the last foreign output
	noiseBytes int    // bytes of noise
	lastWord   string // the last reply

	ctx       context.Context
	cancel    context.CancelCauseFunc
	lastAsked func() time.Time
	timer     *time.Timer

	mu          sync.Mutex
	currentStep string        // guarded by mu: the step that the error names when the timer fires
	stepLimit   time.Duration // guarded by mu
}

// startDialogue starts the command with a remote shell.
func startDialogue(ctx context.Context, o Options, nonce string) (*shellDialogue, error) {
	if len(o.Prefix) == 0 {
		return nil, errors.New("the remote has no command that connects to it")
	}
	p, err := transportcmd.Command{Words: append(slices.Clone(o.Prefix), "sh"), Env: o.Env, Terminal: o.Terminal, Stderr: o.Stderr}.Start()
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", transportcmd.JoinWords(o.Prefix), err)
	}
	t := &shellDialogue{Process: p, words: o.Prefix, nonce: nonce, lastAsked: o.LastAsked}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(t.ctx, p.Terminate)
	t.timer = time.AfterFunc(time.Hour, t.stepExpired)
	return t, nil
}

// limitStep limits the next step of the remote end to d. This replaces the last limit.
func (s *shellDialogue) limitStep(d time.Duration, doing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.currentStep, s.stepLimit = doing, d
	s.timer.Reset(d)
}

func (s *shellDialogue) stepExpired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastAsked != nil {
		if rest := s.stepLimit - time.Since(s.lastAsked()); rest > 0 {
			s.timer.Reset(rest)
			return
		}
	}
	s.cancel(fmt.Errorf("the remote end %s for %s", s.currentStep, s.stepLimit))
}

// endCommand ends the command and everything that it started, after the remote script had time to
// exit and clean up.
func (s *shellDialogue) endCommand() {
	s.timer.Stop()
	_ = s.CloseWrite()
	s.hasExited()
	s.cancel(nil)
	s.Terminate()
}

// hasExited waits a moment for the command to exit.
func (s *shellDialogue) hasExited() bool {
	timer := time.NewTimer(exitTimeout)
	defer timer.Stop()
	select {
	case <-s.Done():
		return true
	case <-timer.C:
		return false
	case <-s.ctx.Done():
		return false
	}
}

// errRemoteClosed means that the remote end reads no more.
var errRemoteClosed = errors.New("the remote end reads no more")

func (s *shellDialogue) sendData(data []byte) error {
	if _, err := s.Write(data); err != nil {
		return errRemoteClosed
	}
	return nil
}

// A refusalError holds the remote end's reason for refusing the program.
type refusalError struct{ reason string }

func (r *refusalError) Error() string {
	return "the remote end does not accept the program: " + r.reason
}

var errTerminal = errors.New("the command gives the remote end a terminal, which changes the data; use ssh -T, or docker exec without -t")

// readReply waits for a reply that starts with one of the words, separated by |. It returns the
// fields after the word, at least the given number.
func (s *shellDialogue) readReply(words string, fields int) ([]string, error) {
	for {
		text, err := s.LineReader().ReadSlice('\n')
		line, ours := strings.CutPrefix(string(text), s.nonce+" ")
		if !ours {
			s.noise = append(s.noise, text...)
			s.noise = s.noise[max(0, len(s.noise)-shownNoiseBytes):]
			if s.noiseBytes += len(text); s.noiseBytes > maxNoiseBytes {
				return nil, fmt.Errorf("the remote end prints more than %d KiB of foreign output; check the startup files of its shell", maxNoiseBytes>>10)
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
			return nil, fmt.Errorf("unexpected reply %q from the remote end", word+" "+rest)
		}
		s.lastWord = word
		return got, nil
	}
}

// describeFailure explains an error: by the limit that was exceeded, or by the command's output
// when it ended.
func (s *shellDialogue) describeFailure(err error) error {
	var no *refusalError
	if errors.As(err, &no) && s.ctx.Err() == nil {
		return err
	}
	// A write may fail before the remote end's reason was read.
	if s.ctx.Err() == nil && errors.Is(err, errRemoteClosed) {
		if _, output := s.readReply("", 0); errors.As(output, &no) {
			return output
		}
	}
	if cause := context.Cause(s.ctx); cause != nil {
		s.Terminate()
		return s.quoteOutput(cause)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errRemoteClosed) {
		return err
	}
	_ = s.CloseWrite()
	if !s.hasExited() {
		return s.quoteOutput(errors.New("the remote end has closed its output"))
	}
	output, status := s.Stderr(), s.ExitState()
	switch {
	case strings.Contains(output, "is not recognized"):
		err = errors.New(windowsHint)
	case transportcmd.IsNotFound(status.ExitCode(), output, "sh"):
		err = errors.New("the remote end has no sh; copy repl there by hand and name it in the remote: repl = \"PATH\"")
	default:
		err = fmt.Errorf("%s ended with %s before the program was installed", transportcmd.JoinWords(s.words), status)
	}
	return s.quoteOutput(err)
}

// quoteOutput appends the output of the command and the remote end.
func (s *shellDialogue) quoteOutput(err error) error {
	for _, w := range []struct{ from, text string }{{"it said", s.Stderr()}, {"it printed", string(s.noise)}} {
		if text := text.OneLine(printableText(w.text)); text != "" {
			err = fmt.Errorf("%w; %s: %s", err, w.from, text)
		}
	}
	if advice := transportcmd.FailureHint(s.words, s.Stderr()); advice != "" {
		err = fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// printableText removes everything that could move a cursor.
func printableText(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
}

const windowsHint = "the remote end is Windows, where repl cannot be installed this way; install it there by hand (docs/install.md), and name it in the remote: repl = \"C:/…/repl.exe\""
