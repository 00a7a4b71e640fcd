package monitorproto

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// A StartError reports a failed start and names its step.
type StartError struct {
	Step string // "terminal", "channel", "monitor", "chdir", "exec", "foreground", …
	Path string // the program or directory of that step; may be ""
	Err  error
}

// Error returns a text for users, with a hint if one is known.
func (e *StartError) Error() string {
	s := "launch: start: " + e.Step
	if e.Path != "" {
		s += " " + strings.ReplaceAll(strconv.Quote(e.Path), `\\`, `\`) // as users write Windows paths
	}
	s += ": " + e.Err.Error()
	if h := e.hint(); h != "" {
		s += " (" + h + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// hint returns what a user can do about the error; it may be "".
func (e *StartError) hint() string {
	is := func(step string, cause error) bool { return e.Step == step && errors.Is(e.Err, cause) }
	if step, ok := strings.CutPrefix(e.Step, "sandbox: "); ok {
		return plan.Hint(step, e.Err)
	}
	switch {
	case is("chdir", fs.ErrNotExist), is("chdir", errNotDirectory):
		return "create the directory or choose another one"
	case is("chdir", fs.ErrPermission):
		return "choose a directory that you may enter"
	case is("exec", fs.ErrNotExist):
		return "the program, or the interpreter that its first line names, does not exist; install it or correct the path"
	case is("exec", fs.ErrPermission):
		return "it is not an executable file; correct the path or make it executable"
	case is("exec", errExecFormat):
		return "it is not a program for this system; a script needs a #! line"
	case is("exec", errTooLong):
		return "arguments and environment are too large in total; shorten them"
	case is("exec", syscall.EAGAIN), is("monitor", syscall.EAGAIN):
		return "the limit on processes is reached; end some or raise it"
	}
	return ""
}
