package python

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

//go:embed src/boot.py src/turnstone_worker/*.py
var sourceFS embed.FS

// programFile is the file name of the worker's program. Its frames are below all user code, and Python
// does not attribute warnings to a file whose name contains "importlib" and "_bootstrap".
const programFile = "boot.importlib_bootstrap.py"

// Options configure a Python worker: which interpreter to start, and how. The zero value is ready
// to use.
type Options struct {
	// Path names the interpreter as FindOptions.Path does; "" means search.
	Path string

	// Dir is the working directory of the worker; the search starts there, too. "" means
	// the supervisor's.
	Dir string

	// Requires restricts the versions of Python, as FindOptions.Requires does.
	Requires string

	// Env is applied to the inherited environment, as in workers.Spec.
	Env []string

	// ShowAll displays the value of every expression statement of a cell, as python -i
	// does. The default is only the last one, as in notebooks.
	ShowAll bool

	// SingleProgram is for a session that runs only one program. It has no prompts (sys.ps1), as with
	// python FILE.
	SingleProgram bool

	// ImageDPI is the resolution of matplotlib figures, in dots per inch, 1 to 1200. 0
	// means matplotlib's own savefig.dpi.
	ImageDPI int

	// CacheDir is the directory for the worker's compiled code, a few hundred KiB for each version of
	// Python. It must belong to the user. If missing, it is created with mode 0700. A directory
	// that others can write to is not used. "" means turnstone/python in the user's cache
	// directory; "-" means no cache.
	CacheDir string
}

// InterpreterSpec returns how to start Python itself, without a worker: its path, its environment and a
// notice. The caller adds arguments. If no Python is found, its Err says so. It is for a program
// that runs as a separate process; Spec is for a session.
func InterpreterSpec(o Options) workers.Spec {
	s := workers.Spec{Name: "python", Dir: o.Dir, Env: slices.Clip(o.Env)}
	env := discovery.ApplyEnv(o.Env)
	found, _, err := Find(FindOptions{Path: o.Path, Dir: o.Dir, Requires: o.Requires, Env: env})
	if err != nil {
		s.Err = err
		return s
	}
	s.Path, s.PathSource = found.Path, found.PathSource
	if around, err := discovery.NewSearchContext(o.Dir, env); err == nil {
		s.Env = append(s.Env, activationEnv(found.Path, around.Env)...)
	}
	if found.Mismatch != "" {
		s.Notice = fmt.Sprintf("this is %s, %s", found.Path, found.Mismatch)
	}
	return s
}

// Spec returns how to start a Python worker. If no Python is found or an option is out of range, its Err
// says so.
func Spec(o Options) workers.Spec {
	s := InterpreterSpec(o)
	if o.ImageDPI < 0 || o.ImageDPI > 1200 {
		s.Err = fmt.Errorf("python: an image resolution of %d dpi is out of range: use 1 to 1200, or 0 for the default", o.ImageDPI)
	}
	if s.Err != nil {
		return s
	}
	s.OutOfMemoryWords = []string{"MemoryError", "Cannot allocate memory"}
	s.NotOutOfMemoryWords = []string{"Parser stack overflowed"}
	// With PYTHONINSPECT set, Python would show its own prompt after an exit.
	s.Env = slices.Insert(s.Env, 0, "PYTHONINSPECT")
	files, err := moduleSources()
	if err != nil {
		s.Err = err
		return s
	}
	s.Files = maps.Clone(files)
	cache := cacheDir(o.CacheDir)
	executable := executableAt(s.Path)
	id := sourceDigest(files, executable)
	s.Args = []string{workers.FilesDir + "/" + programFile, cache, id}
	if cache != "" {
		s.Compilation = newCompilation(cache, id, executable)
	}
	if o.ShowAll {
		s.Args = append(s.Args, "show=all")
	}
	if o.SingleProgram {
		s.Args = append(s.Args, "program=yes")
	}
	if o.ImageDPI > 0 {
		s.Args = append(s.Args, "dpi="+strconv.Itoa(o.ImageDPI))
	}
	return s
}

// activationEnv returns the changes to env that the activation script of a virtual environment
// makes. So the session starts the environment's programs, such as pip. Other interpreters need
// none.
func activationEnv(interpreter string, env map[string]string) []string {
	bin := filepath.Dir(interpreter)
	root := filepath.Dir(bin)
	if _, err := os.Stat(filepath.Join(root, "pyvenv.cfg")); err != nil || filepath.Base(bin) != "bin" {
		return nil
	}
	path := bin
	if before := env["PATH"]; before != "" {
		path += string(os.PathListSeparator) + before
	}
	return []string{"VIRTUAL_ENV=" + root, "PATH=" + path}
}

// moduleSources returns the worker's source by file name. All sessions share it, because a copy would be
// most of the memory of a session.
var moduleSources = sync.OnceValues(func() (map[string][]byte, error) {
	names, err := fs.Glob(sourceFS, "src/turnstone_worker/*.py")
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(names)+1)
	for _, name := range append(names, "src/boot.py") {
		base := path.Base(name)
		if base == "boot.py" {
			base = programFile
		}
		if files[base], err = sourceFS.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return files, nil
})

// cacheDir returns the directory for compiled code, or "" without a cache.
func cacheDir(option string) string {
	switch option {
	case "-":
		return ""
	case "":
		dir, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		return filepath.Join(dir, "turnstone", "python")
	}
	return option
}

// sourceDigest identifies the modules and the interpreter, so that code compiled from other modules or by
// another interpreter is never used.
func sourceDigest(files map[string][]byte, by executable) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", by)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %d\n", name, len(files[name]))
		h.Write(files[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
