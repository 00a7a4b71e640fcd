// Package workers describes how to start a worker: a program that hosts a language runtime and
// speaks the worker protocol. A [Spec] is data. One package per language below this one finds the
// runtime, and contains the source of its worker.
package workers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/sandbox"
)

// FilesDir stands in Spec.Args, Spec.Env and Spec.PlainEnv for the private directory that
// contains Spec.Files. Its path is known only when the worker starts. The directory is removed
// when the worker has ended.
const FilesDir = "{files}"

// A Spec contains everything that is needed to start one kind of worker.
type Spec struct {
	// Name identifies the kind of worker ("python"). It is for display only.
	Name string

	// Path is the absolute path of the executable. Args excludes the program's own name.
	Path string
	Args []string

	// Env is applied in order to the supervisor's environment: "K=V" sets K, "K" alone removes
	// it.
	Env []string

	// PlainEnv is applied after Env, but only if the path of FilesDir has no white space. It is
	// for variables in which a runtime cannot handle white space.
	PlainEnv []string

	// Dir is the working directory; "" means the supervisor's.
	Dir string

	// UserTerminal is for a session that a user operates at the terminal of the supervisor's
	// program. Programs then get TERM and PAGER from its environment, and may take over the keys:
	// the front end must pass the keys on, see timeline.FullScreenChanged. Otherwise no user is
	// expected: TERM is dumb, and pages are shown whole.
	UserTerminal bool

	// Term is the TERM of a session whose programs may draw, such as "xterm-256color". Their
	// newlines are then those of a usual terminal, and PAGER is not changed. "" means dumb, which
	// suits agents: prompts are shorter, and nothing is drawn. It has no effect with UserTerminal,
	// or on Windows.
	Term string

	// Program is for a worker that runs one program, with neither a user nor an agent at its
	// terminal.
	Program Program

	// Limits bound the resources of the worker and all its descendants.
	Limits Limits

	// Sandbox confines the worker and all its descendants; nil leaves them all permissions of
	// the user. Linux supports it. Elsewhere a worker with a sandbox does not start. The same holds
	// on a Linux that does not let programs create namespaces, unless Sandbox.AcceptMechanism
	// accepts a weaker mechanism that is available.
	Sandbox *sandbox.Policy

	// Files maps plain file names to the worker-side source. The files are written with mode
	// 0600 into the worker's private directory before the start.
	Files map[string][]byte

	// Preparations is the work that must be done before the first start, in this order. A
	// session keeps the results for all its workers.
	Preparations []Preparation

	// Compilation compiles, for later workers, the code that a worker otherwise compiles while
	// it starts. A worker without a sandbox saves its compiled code itself; one with a sandbox
	// must not. nil saves nothing.
	Compilation *Compilation

	// EarlyInputError is for a runtime that must not read its terminal before it is ready. If it
	// does, and the system can detect terminal readers, the worker is ended with this message,
	// which explains the cause. "" means that the worker may read.
	EarlyInputError string

	// OutOfMemoryWords are words in the name or the message of an error that mean that the
	// runtime ran out of memory. The reply then names the memory limit, if there is one.
	OutOfMemoryWords []string

	// NotOutOfMemoryWords are words of errors that look like those of OutOfMemoryWords but have
	// another cause.
	NotOutOfMemoryWords []string

	// PathSource says in one line how Path was chosen, for users ("active VIRTUAL_ENV").
	PathSource string

	// Notice is one line for the user of the session, shown at the beginning, such as about a
	// requested environment that cannot be used. It may be "".
	Notice string

	// Err says why this Spec cannot start at all: an option is invalid, or discovery failed.
	// Opening a session with it returns this error.
	Err error
}

// Program sets the standard streams for the children of a program on Windows. There a terminal
// reader cannot be detected, and a terminal redraws what was written to it. The zero value is the
// terminal. On other systems the streams are always the terminal.
//
// On Windows the terminal is a pseudo console. It turns tabs into blanks and breaks lines at its
// edge, which cannot be undone. A child that reads standard input would wait forever for keys. So
// the children of a program get the streams of its command. A console without a user is 1000
// columns wide, so that it rarely breaks a line.
//
// Typing Ctrl-Z at the end of the input was rejected: it ends one read, but a second child waits
// again. Pipes for all children, also in sessions of agents, were rejected. A child that sees no
// terminal holds its output back, and Python then writes it in the code page of the country.
type Program struct {
	Stdin       *os.File // nil: the terminal
	PipedOutput bool     // both outputs are a pipe and arrive as they were written
}

// A MissingError is a Spec.Err that is not a mistake of the caller: the runtime is not
// installed on this machine.
type MissingError struct{ Err error }

func (e *MissingError) Error() string { return e.Err.Error() }

func (e *MissingError) Unwrap() error { return e.Err }

// A Compilation is a program that compiles the worker's own code and exits. The supervisor runs
// it once, in a separate sandbox without access to the session, next to a ready worker.
type Compilation struct {
	// Path is the absolute path of the executable. Args may contain FilesDir, a directory with
	// Spec.Files, in which the program creates one more file. No other program can write there.
	Path string
	Args []string

	// Key is equal for all specs that need the same code.
	Key string

	// HasResult reports whether the compiled code already exists.
	HasResult func() bool

	// SaveResult stores the file. Its content is not trusted, because a session may be able to
	// write the executable. Only workers that are started with that executable may use it.
	SaveResult func(name string, content []byte) error
}

// Validate returns an error if s cannot be started.
func (s *Spec) Validate() error {
	switch {
	case s.Err != nil:
		return s.Err
	case s.Name == "":
		return errors.New("workers: the spec has no name")
	case !filepath.IsAbs(s.Path):
		return fmt.Errorf("workers: the path %[2]q of %[1]s is not absolute", s.Name, s.Path)
	}
	if err := s.Limits.Validate(); err != nil {
		return err
	}
	if err := s.Sandbox.Validate(); err != nil {
		return err
	}
	if s.Limits.Disk > 0 && !s.Sandbox.Confines() {
		return errors.New("workers: a disk limit bounds the files of a sandbox, but this session has none; use the sandbox workspace, or leave the limit out")
	}
	for _, text := range slices.Concat([]string{s.Path, s.Dir}, s.Args, s.Env, s.PlainEnv) {
		if strings.Contains(text, "\x00") {
			return fmt.Errorf("workers: %q contains a zero byte, which cannot be passed to a program", text)
		}
	}
	for _, p := range s.Preparations {
		if p.Key == "" || p.Run == nil {
			return fmt.Errorf("workers: a preparation of %s has no Key or no Run", s.Name)
		}
	}
	if c := s.Compilation; c != nil && (c.Key == "" || c.HasResult == nil || c.SaveResult == nil) {
		return fmt.Errorf("workers: the compilation of %s has no Key, HasResult or SaveResult", s.Name)
	}
	for name := range s.Files {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("workers: %q is not a plain file name", name)
		}
	}
	return nil
}
