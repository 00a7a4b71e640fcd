//go:build unix

package python

import (
	"os"
	"syscall"

	"github.com/turnstone-repl/turnstone/internal/userdirs"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

var (
	commandNames       = []string{"python3", "python"}
	environmentPythons = []string{"bin/python", "bin/python3"}
)

func isStoreAlias(string) bool { return false }

func storeAliasProblem(string) string { return "" }

// launcherCandidates returns nothing, because Unix has no list of installed Pythons.
func (f *finder) launcherCandidates() []Candidate                  { return nil }
func (f *finder) registryCandidates(discovery.Version) []Candidate { return nil }

// dataHome returns the XDG directory for data, which uv uses on every Unix.
func (f *finder) dataHome() string {
	return userdirs.Data(func(name string) string { return f.Env[name] }, f.Home)
}

// pyenvDir is pyenv's directory, below the home directory.
const pyenvDir = ".pyenv"

// dllVersion returns nothing, because only on Windows does a library's name have the version.
func dllVersion(string) discovery.Version { return nil }

// isTrustedDir reports whether only the user can have put root into dir. If dir is world-writable, as
// /tmp is, root must belong to the user.
func isTrustedDir(dir, root string) bool {
	parent, err := os.Stat(dir)
	if err != nil || parent.Mode()&0o002 == 0 {
		return err == nil
	}
	info, err := os.Stat(root)
	if err != nil {
		return true // it does not exist, so it cannot be run
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
