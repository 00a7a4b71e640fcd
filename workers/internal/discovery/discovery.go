// Package discovery is what finding a runtime has in common for all languages.
// It reads files and starts no process.
package discovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/turnstone-repl/turnstone/workers"
)

// Surroundings are what a search looks at.
type Surroundings struct {
	Dir  string            // absolute
	Home string            // absolute; the root when the environment does not say
	Env  map[string]string // by [EnvName]
}

// NewSurroundings takes in a directory, "" for the working directory, and a
// complete environment ("K=V"), of which the last of two equal names counts; nil
// is that of this process.
func NewSurroundings(dir string, environ []string) (Surroundings, error) {
	if environ == nil {
		environ = os.Environ()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Surroundings{}, fmt.Errorf("cannot tell the working directory: %w; name a directory", err)
	}
	s := Surroundings{Dir: dir, Env: make(map[string]string, len(environ))}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			s.Env[EnvName(name)] = value
		}
	}
	s.Home = filepath.VolumeName(dir) + string(filepath.Separator)
	if home := s.Env[homeVariable]; filepath.IsAbs(home) {
		s.Home = filepath.Clean(home)
	}
	return s, nil
}

// Absolute is what a path stands for that somebody wrote down: it counts from Dir,
// and "~/" is Home, since no shell expands what stands in a client's configuration.
func (s Surroundings) Absolute(path string) string {
	if len(path) > 1 && path[0] == '~' && IsPath(path[:2]) {
		path = filepath.Join(s.Home, path[2:])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	return path
}

// Commands lists the executables called name on PATH, in its order. What lies in
// the working directory is no installed program, so only absolute directories count.
func (s Surroundings) Commands(name string) []string {
	var found []string
	for _, dir := range filepath.SplitList(s.Env["PATH"]) {
		path := filepath.Join(dir, strings.TrimSuffix(name, ExeSuffix)+ExeSuffix)
		if filepath.IsAbs(dir) && Objection(path) == "" {
			found = append(found, path)
		}
	}
	return found
}

// Environ is this process's environment with changes applied in order, as in
// workers.Spec. Without changes it is nil, which stands for the same.
func Environ(changes []string) []string {
	if len(changes) == 0 {
		return nil
	}
	env := os.Environ()
	for _, change := range changes {
		name, _, set := strings.Cut(change, "=")
		env = slices.DeleteFunc(env, func(kv string) bool {
			have, _, _ := strings.Cut(kv, "=")
			return EnvName(have) == EnvName(name)
		})
		if set {
			env = append(env, change)
		}
	}
	return env
}

// IsPath reports whether name is meant as a path, not as a command or a version.
func IsPath(name string) bool {
	return strings.ContainsAny(name, pathSeparators) || strings.HasPrefix(name, ".")
}

// Choose tries what each look finds, in order, until one can be used: the one that
// inspect has no note against. It returns the candidates that were tried, of which
// the last is the choice if ok. A candidate that has a note already is not inspected.
func Choose(looks []func() []workers.Candidate, inspect func(path string) (version, note string)) (seen []workers.Candidate, ok bool) {
	for _, look := range looks {
		for _, c := range look() {
			if c.Note == "" {
				var version string
				if version, c.Note = inspect(c.Path); version != "" {
					c.Version = version // else it is what the look was told
				}
			}
			c.Taken = c.Note == ""
			if seen = append(seen, c); c.Taken {
				return seen, true
			}
		}
	}
	return seen, false
}

// Why words the last candidate as the choice, and the ones that exist and were
// passed over as the reason why it is not another. Missed has those that somebody
// asked for.
func Why(seen []workers.Candidate) string {
	last := len(seen) - 1
	text := seen[last].Source
	for _, c := range seen[:last] {
		if c.Path != "" && !c.Asked {
			text += fmt.Sprintf("; not %s: %s", c.Source, c.Note)
		}
	}
	return text
}

// maxMissed bounds how many places Missed names: a file may ask for any number of
// versions.
const maxMissed = 3

// Missed says what somebody asked for and does not get, with the reasons, when the
// last candidate is the choice; "" when nothing.
func Missed(seen []workers.Candidate) string {
	var missed []string
	for _, c := range seen[:len(seen)-1] {
		if c.Asked {
			missed = append(missed, fmt.Sprintf("not %s: %s", c.Source, c.Note))
		}
	}
	if more := len(missed) - maxMissed; more > 0 {
		missed = append(missed[:maxMissed], fmt.Sprintf("and %d more", more))
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.Join(missed, "; "))
}

// Looked lists the candidates that were passed over, with the reasons.
func Looked(seen []workers.Candidate) string {
	var looked []string
	for _, c := range seen {
		looked = append(looked, c.Source+": "+c.Note)
	}
	return strings.Join(looked, "; ")
}

// Objection says why path cannot be executed; "" means it can.
func Objection(path string) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target := brokenLink(path); target != "" {
			return fmt.Sprintf("%s is a broken link to %s: make it again", path, target)
		}
		return path + " does not exist"
	case err != nil:
		return err.Error()
	case info.IsDir():
		return path + " is a directory"
	case !executable(info):
		return path + " is not executable"
	}
	return ""
}

// brokenLink follows the links from path and returns what the last one names; ""
// when path is no link.
func brokenLink(path string) string {
	var last string
	for range 40 { // as many as a kernel follows
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
