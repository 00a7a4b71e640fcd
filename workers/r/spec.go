package r

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

//go:embed src/*.R
var sourceFS embed.FS

// Defaults and bounds of [Options].
const (
	DefaultWidth  = 800 // pixels
	DefaultHeight = 600 // pixels
	DefaultDPI    = 96  // dots per inch

	minPixels, maxPixels         = 50, 10000
	minResolution, maxResolution = 20, 1200
)

// Options configure an R worker: which R to start, and how. The zero value is ready to use.
type Options struct {
	// Path names the R as FindOptions.Path does; "" means search.
	Path string

	// Dir is the working directory of the worker, from which R reads .Rprofile and
	// .Renviron, and the base of a relative Path; "" means the supervisor's.
	Dir string

	// Env is applied to the inherited environment, as in workers.Spec.
	Env []string

	// Args is the result of commandArgs(trailingOnly = TRUE).
	Args []string

	// Width and Height are the size of plots in pixels, 50 to 10000; Resolution is in
	// dots per inch, 20 to 1200. 0 means the default.
	Width, Height, Resolution int

	// KeepGoing runs the rest of an input after an error, as R at a terminal does. By
	// default the rest is not run.
	KeepGoing bool

	// SingleProgram means that an input is a whole program. Then readline() and menu() request
	// input instead of reading a line of the program, as stdin() and scan() do.
	SingleProgram bool

	// CompileShim compiles the shim even if there is a prebuilt one.
	CompileShim bool

	// CacheDir is the directory for the compiled shim, about 50 KiB. It must belong to the user. If
	// missing, it is created with mode 0700. A directory that others can write to is not used.
	// "" means turnstone/r in the user's cache directory; "-" means no cache.
	CacheDir string
}

// startupFileVars lists the environment variables that name files for R to source while it starts.
// .Renviron may set some of them, so each names boot.R, which then restores all of them.
var startupFileVars = []string{"R_TESTS", "R_PROFILE", "R_PROFILE_USER"}

// missingBootError explains why R shows its own prompt: it never ran boot.R.
const missingBootError = "R started without the worker's code; .Renviron must not set all of R_TESTS, R_PROFILE and R_PROFILE_USER"

// InterpreterSpec returns how to start R itself, without a worker: its front end and its environment.
// The caller adds arguments. If no R is found, its Err says so. It is for a program that runs as a
// separate process; Spec is for a session.
func InterpreterSpec(o Options) workers.Spec {
	// The front end sets R_HOME itself, and prints a warning if it had another value.
	s := workers.Spec{Name: "r", Dir: o.Dir, Env: append(slices.Clip(o.Env), "R_HOME")}
	found, _, err := Find(FindOptions{Path: o.Path, Dir: o.Dir, Env: discovery.ApplyEnv(o.Env)})
	s.Path, s.PathSource, s.Err = found.Path, found.PathSource, err
	return s
}

// Spec returns how to start an R worker. If no R is found or an option is out of range, its Err says
// so.
func Spec(o Options) workers.Spec {
	s := InterpreterSpec(o)
	setting, err := o.workerSettings()
	if err != nil {
		s.Err = err
	}
	if s.Err == nil {
		s.Err = fillSpec(&s, o, setting)
	}
	return s
}

func fillSpec(s *workers.Spec, o Options, setting string) error {
	s.EarlyInputError, s.OutOfMemoryWords = missingBootError, []string{"cannot allocate", "could not allocate", "memory exhausted"}
	s.Args = slices.Concat([]string{"--no-save", "--no-restore", "--quiet"}, consoleArgs)
	if len(o.Args) > 0 {
		s.Args = slices.Concat(s.Args, []string{"--args"}, o.Args)
	}
	around, err := discovery.NewSearchContext(o.Dir, discovery.ApplyEnv(o.Env))
	if err != nil {
		return fmt.Errorf("r: %w", err)
	}
	s.Env = append(s.Env, "TURNSTONE_R="+setting)
	if utf8Locale != "" && around.Env["LC_ALL"]+around.Env["LC_CTYPE"]+around.Env["LANG"] == "" {
		// Otherwise R would take every byte above 127 for one character.
		s.Env = append(s.Env, "LC_CTYPE="+utf8Locale)
	}
	kept := func(name string) string {
		if users, ok := around.Env[name]; ok {
			return "TURNSTONE_" + name + "=" + users
		}
		return "TURNSTONE_" + name
	}
	for _, name := range startupFileVars {
		s.Env = append(s.Env, name+"="+workers.FilesDir+"/boot.R", kept(name))
	}
	// R's temporary directory is removed with the worker, even when R is killed. R does
	// not start if its path has white space.
	s.PlainEnv = []string{"TMPDIR=" + workers.FilesDir, kept("TMPDIR")}
	files, err := scriptSources()
	if err != nil {
		return err
	}
	s.Files = maps.Clone(files)
	if o.CompileShim && !canCompile {
		return errors.New("r: CompileShim is not supported on this system, where the worker's library is prebuilt")
	}
	if compressedShim == nil || o.CompileShim {
		s.Preparations = []workers.Preparation{newShimPreparation(o.CacheDir)}
		return nil
	}
	s.Files[shimName], err = prebuiltShim()
	return err
}

// workerSettings returns the settings for the worker's R code, as KEY=VALUE words.
func (o *Options) workerSettings() (string, error) {
	var words []string
	for _, n := range []struct {
		name                   string
		given, least, most, or int
	}{
		{"width", o.Width, minPixels, maxPixels, DefaultWidth},
		{"height", o.Height, minPixels, maxPixels, DefaultHeight},
		{"res", o.Resolution, minResolution, maxResolution, DefaultDPI},
	} {
		value := n.given
		if value == 0 {
			value = n.or
		}
		if value < n.least || value > n.most {
			return "", fmt.Errorf("r: plots with %s=%d are out of range: use %d to %d, or 0 for %d", n.name, value, n.least, n.most, n.or)
		}
		words = append(words, fmt.Sprintf("%s=%d", n.name, value))
	}
	keepGoing := 0
	if o.KeepGoing {
		keepGoing = 1
	}
	words = append(words, fmt.Sprintf("keep_going=%d", keepGoing))
	if o.SingleProgram {
		words = append(words, "program=1")
	}
	return strings.Join(words, " "), nil
}

// scriptSources returns the worker's R code by file name. All sessions share it.
var scriptSources = sync.OnceValues(func() (map[string][]byte, error) {
	names, err := fs.Glob(sourceFS, "src/*.R")
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(names)+1)
	for _, name := range names {
		if files[path.Base(name)], err = sourceFS.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return files, nil
})
