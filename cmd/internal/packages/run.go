package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	maxSaid    = 64 << 20 // bytes that a tool may print in all
	maxLine    = 4 << 10  // bytes of a line that are examined
	maxMessage = 200      // bytes of a line that are shown
	keptLines  = 12       // the last lines, for an error
)

// run runs a tool in a directory, with additions to its environment, and returns the last lines
// of its output. It passes each line to take, cleaned of everything that acts on a terminal.
// The tool's input is empty. When ctx ends, it is killed with all its children.
func (r *Request) run(ctx context.Context, dir string, env []string, take func(line string), command string, args ...string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	said := &sayings{take: take, tooMuch: func() { cancel(fmt.Errorf("it printed more than %d bytes", maxSaid)) }}
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir, cmd.Env = dir, append(r.Env[:len(r.Env):len(r.Env)], env...)
	cmd.Stdout, cmd.Stderr = said, said // one writer: os/exec copies with one goroutine
	cmd.WaitDelay = 2 * time.Second     // for processes that hold the pipe and cannot be killed
	ownTree(cmd)
	err := cmd.Run()
	said.flush()
	tail := strings.Join(said.last, "\n")
	name := filepath.Base(command)
	if i := slices.Index(args, "-m"); i >= 0 && i+1 < len(args) {
		name = args[i+1] // python is not what failed
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return tail, &Error{Reason: fmt.Sprintf("%s was stopped: %v", name, context.Cause(ctx)), Output: tail, cause: context.Cause(ctx)}
	case errors.As(err, &exit):
		return tail, &Error{Reason: fmt.Sprintf("%s failed (%v)", name, err), Output: tail, cause: err}
	case err != nil:
		return tail, &Error{Reason: fmt.Sprintf("%s cannot be run (%v)", name, err), cause: err}
	}
	return tail, nil
}

// sayings collects the output of a tool.
type sayings struct {
	take    func(string) // may be nil
	tooMuch func()

	total int
	line  []byte
	last  []string
}

func (s *sayings) Write(b []byte) (int, error) {
	n := len(b)
	if s.total += n; s.total > maxSaid {
		s.tooMuch()
		return n, nil
	}
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		part := b
		if i >= 0 {
			part = b[:i]
		}
		s.line = append(s.line, part[:min(len(part), maxLine-len(s.line))]...)
		if i < 0 {
			break
		}
		s.flush()
		b = b[i+1:]
	}
	return n, nil
}

// flush ends the line.
func (s *sayings) flush() {
	line := printable(string(s.line))
	s.line = s.line[:0]
	if line == "" {
		return
	}
	if len(s.last) == keptLines {
		s.last = append(s.last[:0], s.last[1:]...)
	}
	s.last = append(s.last, line)
	if s.take != nil {
		s.take(line)
	}
}

// printable returns a line without colours and other control characters.
func printable(line string) string {
	var b strings.Builder
	escape := false
	for _, r := range strings.ToValidUTF8(line, "\uFFFD") {
		switch {
		case r == 0x1b:
			escape = true
		case escape: // until the letter that ends it
			escape = r == '[' || r >= '0' && r <= '?'
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

// brief cuts a line for a message.
func brief(line string) string {
	if len(line) <= maxMessage {
		return line
	}
	return strings.ToValidUTF8(line[:maxMessage], "") + "…"
}
