package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultLimit is how long making a directory may take.
	DefaultLimit = 10 * time.Minute

	// maxWanted and maxName bound what may be asked for: names, and bytes of each.
	maxWanted, maxName = 100, 500

	// unusedLimit is how long a directory is kept that no session was started with.
	unusedLimit = 90 * 24 * time.Hour

	// unfinished marks a directory that is being made.
	unfinished = ".new-"

	// libDir is where the packages are within a directory, and listFile what says
	// what they were made of, for a person.
	libDir, listFile = "lib", "made-of"
)

// A Progress tells how far the work is. Done never shrinks; its unit is the tool's.
type Progress struct {
	Done, Total int64  // Total is 0 while it is not known
	Message     string // one printable line
}

// A Request says what is wanted, and for which runtime.
type Request struct {
	// Executable is the runtime, absolute.
	Executable string

	// Packages are as Tool.Canonical returns them.
	Packages []string

	// Dir is the cache, made with mode 0700 when it is missing, and refused when
	// others could write to it. "" means turnstone/packages in the user's cache directory.
	Dir string

	// Env is the environment for the tools; nil means that of this process.
	Env []string

	// Limit is how long it may take; 0 means DefaultLimit.
	Limit time.Duration
}

func (r *Request) variable(name string) string {
	value := ""
	for _, kv := range r.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// A Tool makes packages for one language. [Python] and [R] are there.
type Tool struct {
	language string

	// canonical checks one name, and writes it as everybody would.
	canonical func(name string) (string, error)

	// examine looks at the runtime.
	examine func(ctx context.Context, r *Request, dir string) (finding, error)

	// install fills lib.
	install func(ctx context.Context, r *Request, f finding, lib string, report func(Progress)) error

	// path is the variable that leads the runtime to directories of packages.
	path string
}

// A finding is what examine found.
type finding struct {
	// facts are what packages that were made for one runtime depend on, so that
	// another never gets them.
	facts []string

	missing   []string // what is wanted and not there anyway
	installer string   // of the tool's own
}

// An Error says that packages could not be made. Output is the last that the tool
// said, a few KiB at most.
type Error struct {
	Wanted []string
	Reason string
	Output string
	cause  error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s cannot be prepared: %s", strings.Join(e.Wanted, ", "), e.Reason)
	if e.Output != "" {
		text += "\n" + e.Output
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// Canonical checks names, and sorts them without repetitions, so that equal wishes
// become equal. An error is the user's.
func (t *Tool) Canonical(names []string) ([]string, error) {
	if len(names) > maxWanted {
		return nil, fmt.Errorf("%d packages are wanted at once: %d are the most", len(names), maxWanted)
	}
	var all []string
	for _, n := range names {
		n = strings.Join(strings.Fields(n), " ")
		if n == "" || len(n) > maxName || strings.ContainsFunc(n, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%.100q is no package of %s's", n, t.language)
		}
		c, err := t.canonical(n)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Make makes the packages available, and returns what has to change in the
// environment of the runtime for it: "K=V", as in workers.Spec. When they were made
// before, it only looks, and reports nothing. report is called by this goroutine and
// one other, never by both at once. An error is an *Error, or ctx's.
func (t *Tool) Make(ctx context.Context, r Request, report func(Progress)) (env []string, err error) {
	if r.Env == nil {
		r.Env = os.Environ()
	}
	if r.Limit == 0 {
		r.Limit = DefaultLimit
	}
	late := fmt.Errorf("it was not done after %s", r.Limit)
	bounded, cancel := context.WithTimeoutCause(ctx, r.Limit, late)
	defer cancel()
	env, err = t.make(bounded, &r, report)
	var e *Error
	switch {
	case err == nil:
		return env, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !errors.As(err, &e):
		e = &Error{Reason: err.Error(), cause: err}
	}
	e.Wanted = r.Packages
	if errors.Is(context.Cause(bounded), late) {
		e.Reason = late.Error()
	}
	return nil, e
}

func (t *Tool) make(ctx context.Context, r *Request, report func(Progress)) ([]string, error) {
	root, err := openCache(r.Dir, strings.ToLower(t.language))
	if err != nil {
		return nil, err
	}
	found, err := t.examine(ctx, r, root)
	if err != nil || len(found.missing) == 0 {
		return nil, err
	}
	list := strings.Join(slices.Concat(found.facts, found.missing), "\n") + "\n"
	sum := sha256.Sum256([]byte(list))
	dir := filepath.Join(root, hex.EncodeToString(sum[:16]))
	if !isDir(dir) {
		tidy(root, r.Limit)
		if err := t.build(ctx, r, found, dir, list, report); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil { // tidy goes by it
		return nil, err
	}
	path := filepath.Join(dir, libDir)
	if before := r.variable(t.path); before != "" {
		path += string(os.PathListSeparator) + before
	}
	return []string{t.path + "=" + path}, nil
}

// build makes dir, whole or not at all.
func (t *Tool) build(ctx context.Context, r *Request, found finding, dir, list string, report func(Progress)) error {
	temp, err := os.MkdirTemp(filepath.Dir(dir), unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // which is gone when all went well
	lib := filepath.Join(temp, libDir)
	if err := os.Mkdir(lib, 0o700); err != nil {
		return err
	}
	if err := t.install(ctx, r, found, lib, report); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, listFile), []byte(list), 0o600); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil && !isDir(dir) { // else somebody was faster
		return err
	}
	return nil
}

func isDir(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.IsDir()
}

// openCache makes the directory in which those of one language are.
func openCache(dir, language string) (string, error) {
	if dir == "" {
		root, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("there is no place to keep packages: %w", err)
		}
		dir = filepath.Join(root, "turnstone", "packages")
	}
	dir, err := filepath.Abs(dir) // the tools run elsewhere
	if err != nil {
		return "", err
	}
	own := filepath.Join(dir, language)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", err
	}
	for _, d := range []string{dir, own} {
		info, err := os.Lstat(d)
		if err != nil {
			return "", err
		}
		if why := untrusted(info); why != "" {
			return "", fmt.Errorf("packages cannot be kept: %s %s", d, why)
		}
	}
	return own, nil
}

// tidy removes what nobody has used for long, and what a process that was killed
// left unfinished. What cannot be removed stays.
func tidy(root string, limit time.Duration) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		keep := unusedLimit
		if strings.HasPrefix(e.Name(), unfinished) {
			keep = limit + time.Hour
		}
		if i, err := e.Info(); err == nil && e.IsDir() && i.Mode()&fs.ModeSymlink == 0 && time.Since(i.ModTime()) > keep {
			_ = os.RemoveAll(filepath.Join(root, e.Name()))
		}
	}
}
