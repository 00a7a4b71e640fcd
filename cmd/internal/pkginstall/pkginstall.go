package pkginstall

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

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/text"
)

const (
	// DefaultTimeout bounds the time for building a directory.
	DefaultTimeout = 10 * time.Minute

	// maxPackages bounds the number of names in a request, and maxNameLength the bytes of each.
	maxPackages, maxNameLength = 100, 500

	// maxUnusedAge bounds how long an unused directory is stored.
	maxUnusedAge = 90 * 24 * time.Hour

	// unfinishedPrefix marks a directory that is still being built.
	unfinishedPrefix = ".new-"

	// libDir holds the packages within a directory, and listFile lists them for the user.
	libDir, listFile = "lib", "made-of"
)

// An InstallProgress describes the progress of an installation. Done never shrinks; the tool
// chooses its unit.
type InstallProgress struct {
	Done, Total int64  // Total is 0 while it is unknown
	Message     string // one printable line
}

// An InstallRequest names packages and the runtime for them.
type InstallRequest struct {
	// Executable is the runtime, absolute.
	Executable string

	// Packages are as Tool.Canonical returns them.
	Packages []string

	// SessionDirs are directories from which nothing is run, neither the runtime nor a tool,
	// because sandboxed code may have written them. For a virtual environment there, the Python
	// from which it was made is used.
	SessionDirs []string

	// Dir is the cache. It is created with mode 0700 if it is missing, and rejected if other users
	// could write to it. "" means turnstone/packages in the user's cache directory.
	Dir string

	// Env is the environment for the tools; nil means the environment of this process.
	Env []string

	// Timeout bounds the time; 0 means DefaultTimeout.
	Timeout time.Duration
}

// A Tool installs packages for one language: see [Python] and [R].
type Tool struct {
	language string

	// canonical checks one name and returns its standard form.
	canonical func(name string) (string, error)

	// probe examines the runtime.
	probe func(ctx context.Context, r *InstallRequest, dir string) (runtimeProbe, error)

	// install installs the packages of r into the directory lib, and reports its progress.
	install func(ctx context.Context, r *InstallRequest, f runtimeProbe, lib string, report func(InstallProgress)) error

	// path is the variable with the runtime's package directories.
	path string
}

// UnsupportedTool is the Tool of a language whose packages cannot be installed here.
func UnsupportedTool(language string) *Tool {
	return &Tool{language: language, canonical: func(string) (string, error) {
		return "", fmt.Errorf("packages of %s cannot be installed here; use the language's own tools", language)
	}}
}

// A runtimeProbe is the result of a tool's probe.
type runtimeProbe struct {
	// facts are the properties of a runtime on which its packages depend. A runtime with other facts
	// gets other packages.
	facts []string

	missing   []string // the packages that the runtime lacks
	installer string   // private to the tool
	pipDir    string   // the directory of a pip that the interpreter does not find; may be ""
}

// An Error means that packages could not be installed. Output is the last output of the tool, a few
// KiB at most.
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

// Canonical checks, sorts and deduplicates names, so that equal requests compare equal. An error is
// a mistake of the user.
func (t *Tool) Canonical(names []string) ([]string, error) {
	if len(names) > maxPackages {
		return nil, fmt.Errorf("%d packages requested; at most %d are allowed", len(names), maxPackages)
	}
	var all []string
	for _, n := range names {
		n = text.OneLine(n)
		if n == "" || len(n) > maxNameLength || strings.ContainsFunc(n, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%.100q is not a package name for %s", n, t.language)
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

// Make makes the packages available and returns the changes of the runtime's environment: "K=V", as
// in workers.Spec. If they were installed before, it only checks that and reports nothing. report
// may be called by another goroutine, but by one goroutine at a time. The error is an *Error, or
// the error of ctx.
func (t *Tool) Make(ctx context.Context, r InstallRequest, report func(InstallProgress)) (env []string, err error) {
	if r.Env == nil {
		r.Env = os.Environ()
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	if err := r.rejectShared(); err != nil {
		return nil, &Error{Wanted: r.Packages, Reason: err.Error(), cause: err}
	}
	late := fmt.Errorf("not finished after %s", r.Timeout)
	bounded, cancel := context.WithTimeoutCause(ctx, r.Timeout, late)
	defer cancel()
	env, err = t.makeLocked(bounded, &r, report)
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

func (t *Tool) makeLocked(ctx context.Context, r *InstallRequest, report func(InstallProgress)) ([]string, error) {
	root, err := openCache(r.Dir, strings.ToLower(t.language))
	if err != nil {
		return nil, err
	}
	found, err := t.probe(ctx, r, root)
	if err != nil || len(found.missing) == 0 {
		return nil, err
	}
	list := strings.Join(slices.Concat(found.facts, found.missing), "\n") + "\n"
	sum := sha256.Sum256([]byte(list))
	dir := filepath.Join(root, hex.EncodeToString(sum[:16]))
	if !isDir(dir) {
		removeUnused(root, r.Timeout)
		if err := t.buildDir(ctx, r, found, dir, list, report); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil { // removeUnused reads it
		return nil, err
	}
	path := filepath.Join(dir, libDir)
	if before := environ.Get(r.Env, t.path); before != "" {
		path += string(os.PathListSeparator) + before
	}
	return []string{t.path + "=" + path}, nil
}

// buildDir builds dir atomically.
func (t *Tool) buildDir(ctx context.Context, r *InstallRequest, found runtimeProbe, dir, list string, report func(InstallProgress)) error {
	temp, err := os.MkdirTemp(filepath.Dir(dir), unfinishedPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // does nothing after success, because it was renamed
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
	if err := os.Rename(temp, dir); err != nil && !isDir(dir) { // otherwise another process was faster
		return err
	}
	return nil
}

func isDir(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.IsDir()
}

// openCache creates the directory for all packages of one language.
func openCache(dir, language string) (string, error) {
	if dir == "" {
		root, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("cannot find a cache directory for packages: %w", err)
		}
		dir = filepath.Join(root, "turnstone", "packages")
	}
	dir, err := filepath.Abs(dir) // the tools run in other directories
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
		if why := whyUntrusted(info); why != "" {
			return "", fmt.Errorf("cannot cache packages: %s %s", d, why)
		}
	}
	return own, nil
}

// removeUnused removes directories that have not been used for long, and unfinished ones of killed
// processes. It ignores errors.
func removeUnused(root string, limit time.Duration) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		keep := maxUnusedAge
		if strings.HasPrefix(e.Name(), unfinishedPrefix) {
			keep = limit + time.Hour
		}
		if i, err := e.Info(); err == nil && e.IsDir() && i.Mode()&fs.ModeSymlink == 0 && time.Since(i.ModTime()) > keep {
			_ = os.RemoveAll(filepath.Join(root, e.Name()))
		}
	}
}
