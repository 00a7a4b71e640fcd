package plan

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
)

// CheckGrantable returns an error if no user may let a session write a file or directory, an
// absolute path without symbolic links. programs is the reason why the user must confirm it:
// programs outside would run or read what is written there. It only inspects paths, and takes less
// than a millisecond.
func CheckGrantable(s *sandbox.Policy, o Origin, dir string) (programs string, err error) {
	p := &planner{Rules: homedir.Rules{Home: cmp.Or(paths.RealOrEmpty(o.homeDir()), o.homeDir()), Directories: o.Directories, TempDirs: []string{"/tmp", "/var/tmp"}}}
	refuse := func(why string) error {
		return fmt.Errorf("the sandbox never makes %s writable: it %s; name another directory", dir, why)
	}
	if why := p.TooWideReason(dir); why != "" {
		return "", refuse(why)
	}
	for _, kernel := range homedir.KernelDirs {
		if paths.Contains(kernel, dir) {
			return "", refuse("belongs to the system")
		}
	}
	above := linkpath.ParentInfos(dir)
	p.addHiddenPaths(s, o)
	for _, h := range p.HiddenPaths {
		if paths.Contains(h.Name, dir) || linkpath.IsAnyOf(above, h.Name) {
			return "", refuse("is hidden from sessions")
		}
	}
	if hasTrustedName(dir) {
		return "", refuse(trustedReason)
	}
	return p.runReason(dir, o), nil
}

// trustedReason is the reason for a path that contains one of the protected names.
const trustedReason = "holds what programs outside the session run or trust"

func hasTrustedName(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == ".git" || slices.Contains(gitdir.ProtectedNames, part) {
			return true
		}
	}
	return false
}

// checkIntended returns an error if programs outside would run or read what is written into a path,
// unless the user has accepted that path. found is the path without links.
func (p *planner) checkIntended(s *sandbox.Policy, o Origin, path, found string, work []string) error {
	accepted := func(a string) bool { return paths.Contains(filepath.Clean(a), found) }
	isClosed := func(c homedir.HiddenPath) bool { return paths.Contains(c.Name, found) } // hidden paths are never granted
	if linkpath.IsInAny(found, work) || slices.ContainsFunc(s.AcceptPaths, accepted) || slices.ContainsFunc(p.HiddenPaths, isClosed) {
		return nil
	}
	why := p.runReason(found, o)
	if why == "" && hasTrustedName(found) {
		why = trustedReason
	}
	if why == "" {
		return nil
	}
	if filepath.Clean(path) != found {
		why = "leads to " + found + ", which " + why
	}
	return fmt.Errorf("the sandbox does not make %s writable: it %s; to allow it anyway, name it again: --confirm-write %s", path, why, shellword.Quote(found))
}

// runReason returns why programs outside would run or read what is written into a file or
// directory, or "".
func (p *planner) runReason(path string, o Origin) string {
	meets := func(dir string) bool {
		found := paths.RealOrEmpty(dir)
		return found != "" && filepath.IsAbs(dir) && (paths.Contains(found, path) || paths.Contains(path, found))
	}
	above := linkpath.ParentInfos(path)
	isTool := func(name string) bool { // the name may be a link to elsewhere
		at := p.HomePath(name)
		return p.Home != "" && (paths.Contains(at, path) || paths.Contains(path, at) || linkpath.IsAnyOf(above, at))
	}
	switch {
	case (p.Home == "" || !paths.Contains(p.Home, path)) && slices.ContainsFunc(homedir.SystemDirs, func(dir string) bool { return paths.Contains(dir, path) || paths.Contains(path, dir) }):
		return "has programs and settings of the whole machine"
	case slices.ContainsFunc(filepath.SplitList(o.Path), meets):
		return "has programs of your PATH"
	case p.isSettings(path):
		return "is where programs keep what they run and read when they start"
	case slices.ContainsFunc(slices.Concat(homedir.LayeredNames, homedir.ReadableNames, homedir.ToolDirs), isTool):
		return "has programs, or packages that your programs import"
	case slices.ContainsFunc(libraryDirsIn(o.Env), meets), isLibrary(path):
		return "has packages that your programs import"
	}
	return ""
}

// isSettings reports whether a path belongs to the settings of programs in the home directory:
// every name there that starts with a dot, except caches.
func (p *planner) isSettings(path string) bool {
	if cache := paths.RealOrEmpty(p.Directories[".cache"]); p.Home == "" || cache != "" && paths.Contains(cache, path) {
		return false
	}
	for name, dir := range p.Directories {
		if found := paths.RealOrEmpty(dir); name != ".cache" && found != "" && (paths.Contains(found, path) || paths.Contains(path, found)) {
			return true
		}
	}
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(p.Home, "/")+"/")
	first, _, _ := strings.Cut(rest, "/")
	return below && (first == "bin" || slices.Contains(homedir.ProgramDataNames, first) || strings.HasPrefix(first, ".") && first != ".cache")
}

// libraryDirsIn returns the directories of packages that variables name.
func libraryDirsIn(env []string) (dirs []string) {
	for _, variable := range env {
		if name, value, _ := strings.Cut(variable, "="); slices.Contains(homedir.LibraryVariables, name) {
			dirs = append(dirs, filepath.SplitList(value)...)
		}
	}
	return dirs
}

// isLibrary reports whether packages are installed in a path or in a directory above it.
func isLibrary(path string) bool {
	for ; path != "/" && path != "."; path = filepath.Dir(path) {
		if slices.Contains([]string{"site-packages", "dist-packages", "node_modules"}, filepath.Base(path)) {
			return true
		}
		for _, mark := range []string{"pyvenv.cfg", "conda-meta", "Meta/package.rds"} { // of Python, conda and R
			if filestate.IsPresent(filepath.Join(path, mark)) {
				return true
			}
		}
	}
	return false
}
