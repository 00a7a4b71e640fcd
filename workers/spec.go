// Package workers says how to start a worker: a program that hosts a language
// runtime and speaks the worker protocol. A [Spec] is data; discovery and the
// worker-side source live in one package per language below this one.
package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
)

// FilesDir stands in Spec.Args, Spec.Env and Spec.PlainEnv for the private directory
// that holds Spec.Files. It is known only when the worker starts, and removed with all
// that is in it when the worker has ended.
const FilesDir = "{files}"

// MinMemoryLimit is the smallest memory limit of a Spec, in bytes: a stage and a
// runtime need it before any user code runs.
const MinMemoryLimit = 64 << 20

// A Spec is everything that is needed to start one kind of worker.
type Spec struct {
	// Name identifies the kind of worker ("python"); it is display data.
	Name string

	// Path is the executable, absolute. Args excludes the program's own name.
	Path string
	Args []string

	// Env is applied in order to the supervisor's environment:
	// "K=V" sets K, "K" alone removes it.
	Env []string

	// PlainEnv is applied behind Env where the path of FilesDir has no white space, for
	// runtimes that cannot do with any in these variables.
	PlainEnv []string

	// Dir is the working directory; "" means the supervisor's.
	Dir string

	// MemoryLimit bounds, in bytes, what the worker and everything that it starts may
	// commit together: MinMemoryLimit or more; 0 means no limit. What asks for more
	// is refused it, which Python raises as a MemoryError; a worker that ends
	// thereafter with an error is reported with the limit. Only Windows has it;
	// on other systems a limit is an error, so that nobody relies on one that is not
	// enforced.
	MemoryLimit int64

	// Files is the worker-side source by plain file name. It is written, mode
	// 0600, into the worker's private directory before the start.
	Files map[string][]byte

	// Prepare makes what cannot be had before the start, such as something that must
	// be compiled once; nil when there is nothing. It runs before every start of a
	// worker, must be quick when its work is already done, tells progress in whole
	// sentences for a person, and returns more Files. It gives up when ctx ends.
	Prepare func(ctx context.Context, progress func(message string)) (map[string][]byte, error)

	// EarlyInput says what must be wrong when the worker reads its terminal before it
	// is ready, for a runtime that has no business doing so. The worker is ended with
	// this sentence, where the system shows such readers. "" means that it may ask.
	EarlyInput string

	// Why says in one line how Path was chosen, for a person ("active VIRTUAL_ENV").
	Why string

	// Notice is what whoever uses the session should know from the beginning, in one
	// line: an environment, say, that was asked for and cannot be used. "" means
	// nothing.
	Notice string

	// Err is why this Spec cannot start at all: discovery failed. Whoever opens a
	// session returns it.
	Err error
}

// Prepared runs Prepare, and returns everything that is to be written before the start.
func (s *Spec) Prepared(ctx context.Context, progress func(message string)) (map[string][]byte, error) {
	if s.Prepare == nil {
		return s.Files, nil
	}
	made, err := s.Prepare(ctx, progress)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(s.Files)+len(made))
	maps.Copy(files, s.Files)
	maps.Copy(files, made)
	return files, nil
}

// Validate reports what makes s impossible to start.
func (s *Spec) Validate() error {
	switch {
	case s.Err != nil:
		return s.Err
	case s.Name == "":
		return errors.New("workers: the spec has no name")
	case !filepath.IsAbs(s.Path):
		return fmt.Errorf("workers: the path of %s is not absolute: %q", s.Name, s.Path)
	case s.MemoryLimit != 0 && s.MemoryLimit < MinMemoryLimit:
		return fmt.Errorf("workers: the memory limit of %s is %d bytes, in which nothing starts: allow at least %d", s.Name, s.MemoryLimit, MinMemoryLimit)
	}
	for name := range s.Files {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("workers: %q is not a plain file name", name)
		}
	}
	return nil
}
