// Package workers says how to start a worker: a program that hosts a language
// runtime and speaks the worker protocol. A [Spec] is data; discovery and the
// worker-side source live in one package per language below this one.
package workers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FilesDir stands in Spec.Args, Spec.Env and Spec.PlainEnv for the private directory
// that holds Spec.Files. Its path is known only when the worker starts. The directory is
// removed when the worker has ended.
const FilesDir = "{files}"

// A Spec has everything that is needed to start one kind of worker.
type Spec struct {
	// Name identifies the kind of worker ("python"); it is display data.
	Name string

	// Path is the executable, absolute. Args excludes the program's own name.
	Path string
	Args []string

	// Env is applied in order to the supervisor's environment:
	// "K=V" sets K, "K" alone removes it.
	Env []string

	// PlainEnv is applied after Env, but only if the path of FilesDir has no white space.
	// It is for variables in which a runtime cannot handle white space.
	PlainEnv []string

	// Dir is the working directory; "" means the supervisor's.
	Dir string

	// UserTerminal makes the worker's terminal that of the person in front of the supervisor's
	// program. Programs find the TERM and the PAGER of its environment, and may take the keys:
	// the front end must then pass them on, see timeline.FullScreenChanged. Otherwise the terminal is for
	// programs: TERM is dumb, and pages are shown whole.
	UserTerminal bool

	// Program is for a worker that runs one program, with neither a person nor an agent at its
	// terminal.
	Program Program

	// Limits bound what the worker and everything that it starts use.
	Limits Limits

	// Sandbox confines the worker and everything that it starts; nil leaves them all
	// rights of the user. Linux has it. Elsewhere, and on a Linux that does not let programs
	// make namespaces, a worker with a sandbox is not started, unless Sandbox.AcceptMechanism takes a
	// weaker mechanism that is there.
	Sandbox *Sandbox

	// Files has the worker-side source, by plain file name. The files are written with
	// mode 0600 into the worker's private directory before the start.
	Files map[string][]byte

	// Preparations is the work that must be done before the first start, in this order. A
	// session keeps the results for all its workers.
	Preparations []Preparation

	// Compilation has what a worker compiles while it starts compiled for later workers. A worker
	// without a sandbox keeps its code itself; one with a sandbox must not. nil keeps nothing.
	Compilation *Compilation

	// EarlyInputError is for a runtime that must not read its terminal before it is ready. If
	// it does, and the system shows such readers, the worker is ended with this sentence,
	// which explains the cause. "" means that the worker may ask.
	EarlyInputError string

	// OutOfMemoryWords are words in the name or the message of an error that mean that the runtime
	// got no memory. Then the reply names the limit of memory, if there is one.
	OutOfMemoryWords []string

	// NotOutOfMemoryWords are words of errors that look like those of OutOfMemoryWords and have another cause.
	NotOutOfMemoryWords []string

	// PathSource says in one line how Path was chosen, for a person ("active VIRTUAL_ENV").
	PathSource string

	// Notice is one line that the user of the session should know from the beginning,
	// such as an environment that was asked for and cannot be used. It may be "".
	Notice string

	// Err says why this Spec cannot start at all: an option is wrong, or discovery failed.
	// Opening a session with it returns this error.
	Err error
}

// Program says what the children of a program find as their standard streams on Windows: there,
// who reads a terminal is not seen, and a terminal redraws what was written to it. The zero value
// is the terminal. Elsewhere it is always the terminal.
type Program struct {
	Stdin       *os.File // nil: the terminal
	PipedOutput bool     // both outputs are a pipe, and come as they were written
}

// A MissingError is a Spec.Err that is no mistake of the caller's: this machine has no runtime of
// that kind.
type MissingError struct{ Err error }

func (e *MissingError) Error() string { return e.Err.Error() }

func (e *MissingError) Unwrap() error { return e.Err }

// A Compilation is a program that compiles the worker's own code and ends. The supervisor runs it
// once, in a sandbox of its own that has nothing of the session, beside a worker that is ready.
type Compilation struct {
	// Path is the executable, absolute. Args may have FilesDir, a directory with Spec.Files, in
	// which the program leaves one more file. Nobody else can write there.
	Path string
	Args []string

	// Key is equal for all specs that need the same code.
	Key string

	// HasResult reports whether there is such code already.
	HasResult func() bool

	// SaveResult stores the file. Its content may be anything, since a session may be able to write
	// the executable: only workers that are started with that executable may use it.
	SaveResult func(name string, content []byte) error
}

// Validate reports why s cannot be started.
func (s *Spec) Validate() error {
	switch {
	case s.Err != nil:
		return s.Err
	case s.Name == "":
		return errors.New("workers: the spec has no name")
	case !filepath.IsAbs(s.Path):
		return fmt.Errorf("workers: the path of %s is not absolute: %q", s.Name, s.Path)
	}
	if err := s.Limits.Validate(); err != nil {
		return err
	}
	if err := s.Sandbox.Validate(); err != nil {
		return err
	}
	if s.Limits.Disk > 0 && !s.Sandbox.Confines() {
		return errors.New("workers: a limit of disk bounds what a sandbox keeps, and this session has none: choose the sandbox workspace, or leave the limit out")
	}
	for _, text := range slices.Concat([]string{s.Path, s.Dir}, s.Args, s.Env, s.PlainEnv) {
		if strings.Contains(text, "\x00") {
			return fmt.Errorf("workers: %q has a zero byte, which no program can be given", text)
		}
	}
	for _, p := range s.Preparations {
		if p.Key == "" || p.Run == nil {
			return fmt.Errorf("workers: a preparation of %s has no key, or nothing to do", s.Name)
		}
	}
	if c := s.Compilation; c != nil && (c.Key == "" || c.HasResult == nil || c.SaveResult == nil) {
		return fmt.Errorf("workers: the compilation of %s has no key, or nothing that keeps its result", s.Name)
	}
	for name := range s.Files {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("workers: %q is not a plain file name", name)
		}
	}
	return nil
}
