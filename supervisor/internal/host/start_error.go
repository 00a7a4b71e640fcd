package host

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// A StartError names the step at which a start failed.
type StartError struct {
	Step string // "terminal", "channel", "stage", "chdir", "exec", "foreground", …
	Path string // the program or directory of that step; may be ""
	Err  error
}

func (e *StartError) Error() string {
	s := "host: start: " + e.Step
	if e.Path != "" {
		s += " " + strings.ReplaceAll(strconv.Quote(e.Path), `\\`, `\`) // as people write the paths of Windows
	}
	s += ": " + e.Err.Error()
	if h := e.hint(); h != "" {
		s += " (" + h + ")"
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// hint says what a person can do about it; it may be "".
func (e *StartError) hint() string {
	is := func(step string, cause error) bool { return e.Step == step && errors.Is(e.Err, cause) }
	if step, ok := strings.CutPrefix(e.Step, "sandbox: "); ok {
		return confine.Hint(step, e.Err)
	}
	switch {
	case is("chdir", fs.ErrNotExist), is("chdir", errNotDirectory):
		return "create the directory or choose another one"
	case is("chdir", fs.ErrPermission):
		return "choose a directory that may be entered"
	case is("exec", fs.ErrNotExist):
		return "the program, or the interpreter that its first line names, does not exist; install it or correct the path"
	case is("exec", fs.ErrPermission):
		return "it is not an executable file; correct the path or make it executable"
	case is("exec", errExecFormat):
		return "it is not a program for this system; a script needs a #! line"
	case is("exec", errTooLong):
		return "arguments and environment are too large together; shorten them"
	case is("exec", syscall.EAGAIN), is("stage", syscall.EAGAIN):
		return "the limit of processes is reached; end some or raise it"
	}
	return ""
}
