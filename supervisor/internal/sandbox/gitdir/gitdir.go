package gitdir

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
)

// These files in a directory that the session writes are protected. Programs outside the session
// run or trust them without asking: hooks and settings of repositories, and settings of editors,
// model clients and cloud tools.
var (
	// ProtectedNames are relative to the top of a work tree, or of a directory that the session writes.
	ProtectedNames = sandbox.ProtectedNames()

	// HookSettings are files of hook managers. They say what the hooks of a repository run, if it has any.
	HookSettings = []string{
		".husky", ".pre-commit-config.yaml", ".overcommit.yml", ".lefthook", "lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json",
		".lefthook.yml", ".lefthook.yaml", "lefthook-local.yml", ".lefthook-local.yml",
		".pre-commit-config.yml", "captainhook.json", "grumphp.yml", "hk.pkl", "prek.toml",
	}
)

// HasHooks reports whether a directory may contain hooks that git runs.
func HasHooks(dir string) bool {
	entries, err := os.ReadDir(dir)
	return filestate.PresenceOfError(err) == filestate.Unknown || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".sample") })
}

// GitDirPresence says whether a directory is a git directory: that of a bare repository or of a
// linked work tree. A directory with linked work trees counts without a HEAD.
func GitDirPresence(dir string) filestate.Presence {
	if objects := filestate.PresenceOf(dir + "/objects"); objects != filestate.Missing {
		return min(objects, max(HeadPresence(dir), filestate.PresenceOf(dir+"/worktrees")))
	}
	return LinkedTreePresence(dir)
}

// IsGitDir reports whether a directory is known to be a git directory.
func IsGitDir(dir string) bool { return GitDirPresence(dir) == filestate.Present }

// LinkedTreePresence says whether a directory is the git directory of a linked work tree.
func LinkedTreePresence(git string) filestate.Presence {
	return min(filestate.PresenceOf(git+"/commondir"), HeadPresence(git))
}

// HeadPresence says whether a directory contains a file HEAD.
func HeadPresence(git string) filestate.Presence {
	st, err := os.Lstat(git + "/HEAD")
	if err == nil && st.IsDir() {
		return filestate.Missing
	}
	return filestate.PresenceOfError(err)
}

// GitDirOf returns the directory that a .git file names, or "".
func GitDirOf(file string) string {
	to, ok := strings.CutPrefix(strings.TrimSpace(string(linkpath.ReadSettingsFile(file))), "gitdir: ")
	if !ok {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(file), to)
	}
	return paths.RealOrEmpty(to)
}

// MaxOwnRepos bounds the repositories that a session created and may change as a whole.
const MaxOwnRepos = 10_000

// OwnReposFileIn returns the path of the list of repositories that the workers of a session made,
// by the identities of their directories. The session cannot see it.
func OwnReposFileIn(state string) string { return filepath.Join(state, "repositories") }

// ReadOwnRepos reads the list in OwnReposFileIn, up to MaxOwnRepos. Without the list, the repositories
// are protected like those of others.
func ReadOwnRepos(state string) map[string]bool {
	own := map[string]bool{}
	f, err := os.Open(OwnReposFileIn(state))
	if err != nil {
		return own
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(own) < MaxOwnRepos; {
		if id := lines.Text(); id != "" {
			own[id] = true
		}
	}
	return own
}
