package pkginstall

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
	maxOutputBytes  = 64 << 20 // total bytes that a tool may print
	maxLineBytes    = 4 << 10  // bytes of a line that are examined
	maxMessageBytes = 200      // bytes of a line that are shown
	maxErrorLines   = 12       // the last lines, for an error
)

// runTool runs a tool in a directory, with additions to its environment, and returns the last lines
// of its output. It passes each line to take, without control characters. The tool's input is
// empty. When ctx ends, it is killed with all its children.
func (r *InstallRequest) runTool(ctx context.Context, dir string, env []string, take func(line string), command string, args ...string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	output := &toolOutput{onLine: take, onOverflow: func() { cancel(fmt.Errorf("it printed more than %d bytes", maxOutputBytes)) }}
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir, cmd.Env = dir, append(r.Env[:len(r.Env):len(r.Env)], env...)
	cmd.Stdout, cmd.Stderr = output, output // one writer: os/exec copies with one goroutine
	cmd.WaitDelay = 2 * time.Second         // for processes that hold the pipe and cannot be killed
	setProcessGroup(cmd)
	err := cmd.Run()
	output.endLine()
	tail := strings.Join(output.lastLines, "\n")
	name := filepath.Base(command)
	if i := slices.Index(args, "-m"); i >= 0 && i+1 < len(args) {
		name = args[i+1] // the failure is the module's, not python's
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

// toolOutput collects the last lines of a tool's output.
type toolOutput struct {
	onLine     func(string) // may be nil
	onOverflow func()

	total     int
	line      []byte
	lastLines []string
}

func (o *toolOutput) Write(b []byte) (int, error) {
	n := len(b)
	if o.total += n; o.total > maxOutputBytes {
		o.onOverflow()
		return n, nil
	}
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		part := b
		if i >= 0 {
			part = b[:i]
		}
		o.line = append(o.line, part[:min(len(part), maxLineBytes-len(o.line))]...)
		if i < 0 {
			break
		}
		o.endLine()
		b = b[i+1:]
	}
	return n, nil
}

func (o *toolOutput) endLine() {
	line := printableLine(string(o.line))
	o.line = o.line[:0]
	if line == "" {
		return
	}
	if len(o.lastLines) == maxErrorLines {
		o.lastLines = append(o.lastLines[:0], o.lastLines[1:]...)
	}
	o.lastLines = append(o.lastLines, line)
	if o.onLine != nil {
		o.onLine(line)
	}
}

// printableLine returns a line without colours and other control characters.
func printableLine(line string) string {
	var b strings.Builder
	escape := false
	for _, r := range strings.ToValidUTF8(line, "\uFFFD") {
		switch {
		case r == 0x1b:
			escape = true
		case escape: // the sequence continues until a letter ends it
			escape = r == '[' || r >= '0' && r <= '?'
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}
