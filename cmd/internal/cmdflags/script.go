package cmdflags

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/cmd/internal/scriptblock"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// ScriptFlags hold the Python files whose block "script" says what a session needs.
type ScriptFlags struct {
	File     string // of --with-script; its packages are installed for sessions with any sandbox
	disabled bool   // the block of a program is not read
}

// AddFlags adds --with-script and --no-script, for a command that runs a file.
func (s *ScriptFlags) AddFlags(f *flag.FlagSet) {
	s.AddFileFlag(f)
	f.BoolVar(&s.disabled, "no-script", false, "do not install or require what the block \"script\" of the file asks for")
}

// AddFileFlag adds --with-script.
func (s *ScriptFlags) AddFileFlag(f *flag.FlagSet) {
	f.StringVar(&s.File, "with-script", "", "`FILE` install the packages, and require the Python, that the block \"script\" of this file names")
}

// Needs are the packages and the version of Python that the files of a command line ask for.
type Needs struct {
	Packages       PackageList
	RequiresPython string
	byProgram      []string // packages that only the program asks for
}

// ReadScripts reads the blocks of --with-script and of a program, which may be "". Both must be
// Python, unless isPython is false: then the program has no block. Notices go to w.
func (s *ScriptFlags) ReadScripts(w io.Writer, program string, isPython bool) (n Needs, err error) {
	if s.File != "" && s.disabled {
		return n, cmdkit.UsageErrorf("use either --with-script or --no-script, not both")
	}
	if s.File != "" && !isPython {
		return n, cmdkit.UsageErrorf("--with-script %s: only Python files have a block \"script\"; add --lang python", s.File)
	}
	if s.File != "" {
		b, found, err := readScript(w, s.File)
		if err != nil {
			return n, cmdkit.UsageErrorf("--with-script: %v", err)
		}
		if !found {
			return n, cmdkit.UsageErrorf("--with-script %s: the file has no block \"script\", which starts with the line \"# /// script\"", s.File)
		}
		n.Packages, n.RequiresPython = b.Dependencies, b.RequiresPython
	}
	if program == "" || !isPython || s.disabled || s.isFile(program) {
		return n, nil
	}
	b, _, err := readScript(w, program)
	if err != nil {
		return n, cmdkit.UsageErrorf("%v; --no-script ignores the block", err)
	}
	n.byProgram = b.Dependencies
	n.Packages = append(n.Packages, b.Dependencies...)
	n.RequiresPython = joinConditions(n.RequiresPython, b.RequiresPython)
	return n, nil
}

// readScript reads the block of a file and prints its notices.
func readScript(w io.Writer, path string) (scriptblock.Block, bool, error) {
	b, found, err := scriptblock.ReadFile(path)
	for _, notice := range b.Notices {
		fmt.Fprintf(w, "repl: %s\n", notice)
	}
	return b, found, err
}

// isFile reports whether a program is the file of --with-script.
func (s *ScriptFlags) isFile(program string) bool {
	return s.File != "" && filepath.Clean(s.File) == filepath.Clean(program)
}

// joinConditions returns the conditions of both.
func joinConditions(a, b string) string {
	return strings.Join(slices.DeleteFunc([]string{a, b}, func(one string) bool { return one == "" }), ", ")
}

// CheckConfined returns an error if the program asks for packages and runs in a sandbox. An
// installation may run code outside of the sandbox, and the author of the program would choose it.
func (n Needs) CheckConfined(program string, confined bool) error {
	if !confined || len(n.byProgram) == 0 {
		return nil
	}
	return cmdkit.UsageErrorf("%s asks for packages (%s), and installing them may run code outside of the sandbox; add --with-script %s to allow that, or --no-script to run it without them",
		program, strings.Join(n.byProgram, ", "), program)
}

// ProtectFile protects the file of --with-script from sandboxed sessions. A session could otherwise
// choose what the next start of a server installs, outside of the sandbox.
func (s *ScriptFlags) ProtectFile(policy *sandbox.Policy) error {
	if s.File == "" || !policy.Confines() {
		return nil
	}
	path, err := filepath.Abs(s.File)
	if err != nil {
		return err
	}
	policy.Protected = append(policy.Protected, path)
	if real := paths.RealOrSame(path); real != path {
		policy.Protected = append(policy.Protected, real)
	}
	return nil
}

// CheckRequiresPython returns an error unless the conditions that a client sends are valid for
// sessions of this language.
func CheckRequiresPython(requires, language string) error {
	if requires == "" {
		return nil
	}
	if language != "python" {
		return session.Errorf(session.KindInvalid, "requires_python: the language is %s", language)
	}
	if err := python.CheckRequires(requires); err != nil {
		return session.Errorf(session.KindInvalid, "requires_python: %v", err)
	}
	return nil
}

// RequireVersion returns an error if a session runs a Python that does not meet the conditions. The
// version is unknown before the first worker is ready.
func RequireVersion(requires string, now session.Info) error {
	if requires == "" || now.RuntimeVersion == "" || now.Language == "python" && python.MeetsRequires(requires, now.RuntimeVersion) {
		return nil
	}
	return fmt.Errorf("%s already exists and runs %s %s, not Python %s; use another name, or run repl close %s first", now.Name, languages.OfSession(now.Language).Display, now.RuntimeVersion, requires, now.Name)
}
