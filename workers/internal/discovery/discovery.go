// Package discovery has the parts of the search for a runtime that all languages share. It reads
// files and starts no processes.
package discovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/toolenv"
	"github.com/turnstone-repl/turnstone/workers"
)

// SearchContext holds the input of a search.
type SearchContext struct {
	Dir  string            // absolute
	Home string            // absolute; the root if the environment does not set it
	Env  map[string]string // by environ.Key
}

// NewSearchContext returns the context for a search. dir is the directory where it starts; "" means
// the working directory. env is a complete environment ("K=V"), in which the last of several equal
// names counts; nil means that of this process.
func NewSearchContext(dir string, env []string) (SearchContext, error) {
	if env == nil {
		env = os.Environ()
	}
	dir, err := filepath.Abs(dir)
	if errors.Is(err, fs.ErrNotExist) { // it was removed, but a program can still run in it
		dir, err = filepath.Abs(string(filepath.Separator))
	}
	if err != nil {
		return SearchContext{}, fmt.Errorf("the working directory was removed or is not accessible: %w; change to another one", err)
	}
	s := SearchContext{Dir: dir, Env: make(map[string]string, len(env))}
	for _, kv := range env {
		if name, value, ok := environ.Split(kv); ok {
			s.Env[environ.Key(name)] = value
		}
	}
	s.Home = filepath.VolumeName(dir) + string(filepath.Separator)
	if home := s.Env[homeVariable]; filepath.IsAbs(home) {
		s.Home = filepath.Clean(home)
	}
	return s, nil
}

// AbsPath resolves a path that a user wrote: a relative one is relative to Dir, and "~/" is
// Home. If the path comes from a client's configuration, no shell has expanded it.
func (s SearchContext) AbsPath(path string) string {
	if len(path) > 1 && path[0] == '~' && IsPath(path[:2]) {
		path = filepath.Join(s.Home, path[2:])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	return path
}

// FindCommands lists the executables called name on PATH, in its order. Relative directories
// are skipped, because a file in the working directory is not an installed program.
func (s SearchContext) FindCommands(name string) []string {
	var found []string
	for _, dir := range filepath.SplitList(s.Env["PATH"]) {
		path := filepath.Join(dir, strings.TrimSuffix(name, ExeSuffix)+ExeSuffix)
		if filepath.IsAbs(dir) && ExecutableProblem(path) == "" {
			found = append(found, path)
		}
	}
	return found
}

// DescribeMissing returns a sentence that says that none of the commands are on PATH.
func (s SearchContext) DescribeMissing(names ...string) string {
	if s.Env["PATH"] == "" {
		return "not set"
	}
	return "has no " + strings.Join(names, " and no ")
}

// ApplyEnv returns this process's environment with changes applied in order, as in
// workers.Spec. Without changes it returns nil, which has the same meaning.
func ApplyEnv(changes []string) []string {
	if len(changes) == 0 {
		return nil
	}
	return environ.Apply(os.Environ(), changes)
}

// ToolEnvOwner returns a description of the program for which the virtual environment of an
// interpreter was made; "" if there is none, or it is for the user's own use. uvx puts such an
// environment first on PATH for the program that it runs.
func ToolEnvOwner(interpreter string) string {
	root := filepath.Dir(filepath.Dir(interpreter))
	maker := toolenv.InstallerName(root)
	if _, err := os.Stat(filepath.Join(root, "pyvenv.cfg")); err != nil || maker == "" {
		return ""
	}
	return root + " was made for one program, by " + maker
}

// IsPath reports whether name is a path, as opposed to a command or a version.
func IsPath(name string) bool {
	return strings.ContainsAny(name, pathSeparators) || strings.HasPrefix(name, ".")
}

// ChooseCandidate tries the candidates of each look, in order, until it finds a usable one, for
// which inspect returns no note. It returns the tried candidates; the last is the choice if ok.
// It does not inspect a candidate that already has a note.
func ChooseCandidate(looks []func() []workers.Candidate, inspect func(path string) (version, note string)) (seen []workers.Candidate, ok bool) {
	for _, look := range looks {
		for _, c := range look() {
			if c.Note == "" {
				var version string
				if version, c.Note = inspect(c.Path); version != "" {
					c.Version = version // otherwise keep the version from the look
				}
			}
			c.Chosen = c.Note == ""
			if seen = append(seen, c); c.Chosen {
				return seen, true
			}
		}
	}
	return seen, false
}

// ChoiceReason says how the last candidate was chosen, and which existing ones were not.
// DescribeMissed names those that were asked for.
func ChoiceReason(seen []workers.Candidate) string {
	last := len(seen) - 1
	text := seen[last].Source
	for _, c := range seen[:last] {
		if c.Path != "" && !c.Requested {
			text += fmt.Sprintf("; not %s: %s", c.Source, c.Note)
		}
	}
	return text
}

// maxNamedCandidates bounds the candidates that DescribeMissed names, because a file may ask
// for any number of versions.
const maxNamedCandidates = 3

// DescribeMissed names the candidates that were asked for and not chosen, with the reasons; ""
// if there are none. The last candidate is the choice.
func DescribeMissed(seen []workers.Candidate) string {
	var missed []string
	for _, c := range seen[:len(seen)-1] {
		if c.Requested {
			missed = append(missed, fmt.Sprintf("not %s: %s", c.Source, c.Note))
		}
	}
	if more := len(missed) - maxNamedCandidates; more > 0 {
		missed = append(missed[:maxNamedCandidates], fmt.Sprintf("and %d more", more))
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.Join(missed, "; "))
}

// DescribeRejected lists the candidates that were not chosen, with the reasons.
func DescribeRejected(seen []workers.Candidate) string {
	var looked []string
	for _, c := range seen {
		looked = append(looked, c.Source+": "+c.Note)
	}
	return strings.Join(looked, "; ")
}

// ExecutableProblem returns why path cannot be executed; "" means it can.
func ExecutableProblem(path string) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target := brokenLinkTarget(path); target != "" {
			return fmt.Sprintf("%s is a broken link to %s: create it again", path, target)
		}
		return path + " does not exist"
	case err != nil:
		return err.Error()
	case info.IsDir():
		return path + " is a directory"
	case !isExecutable(info):
		return path + " is not executable"
	}
	return ""
}

// brokenLinkTarget follows the links from path and returns the target of the last one; "" if
// path is not a link.
func brokenLinkTarget(path string) string {
	var last string
	for range 40 { // the kernel's own limit
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		last, path = target, target
	}
	return last
}
