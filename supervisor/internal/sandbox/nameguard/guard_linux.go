package nameguard

import (
	"os"
	"sync"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// A Guard decides at each call, by name, what a session may change in the directories that it
// writes. Mounts protect only what existed when the session started, and programs outside replace
// files and create new ones. So the guard checks what a name means at the time of the call. A
// repository that was created a moment ago is protected like any other.
//
// In repositories that the session itself made, it protects hooks and settings, because git also
// runs what they name for the repository around them.
type Guard struct {
	view *workerview.View

	workDirs   []string // directories that the session writes; guarded by protectMu, as is gitTargets
	gitTargets []string // paths in them that git settings lead to

	ownMu        sync.Mutex
	ownRepos     map[string]bool // directories of repositories that the session created, by identity
	freshDirs    []string        // the latest directories that it created, by identity; at most maxFreshDirs
	ownReposFile *os.File        // records ownRepos for the session's later workers; may be nil

	protectMu          sync.RWMutex
	protectedPaths     map[string]bool                // paths that must not be created, folded
	protectedLastNames map[string]bool                // their last names
	protectedParents   map[string]bool                // all directories above them
	hiddenPaths        []string                       // hidden paths, case-folded
	mountKinds         map[string]mountlist.MountKind // the mounts by path
	mountNames         map[string]bool                // their last names
}

// New returns a guard that protects nothing yet.
func New(view *workerview.View) *Guard { return &Guard{view: view} }

// A ProtectedNameError reports that a name must not be created or changed.
type ProtectedNameError struct {
	Path    string
	Setting string // the git setting, if the path is a git config file
}

// Error names the path.
func (e ProtectedNameError) Error() string { return e.Path + " must not be created or changed" }
