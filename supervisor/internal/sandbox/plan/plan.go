package plan

import (
	"cmp"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A Plan lists the mounts that the monitor makes for a worker, and what it checks by name.
type Plan struct {
	State   mountlist.Path    // a private directory on disk, for temporary files and overlays
	Mounts  []mountlist.Mount // parents before children; all other paths are read-only
	Network bool              // true for the user's network; otherwise the session has only a loopback
	Egress  bool              // besides the loopback, connections leave through the supervisor

	Disk   int64 // limit of the session's files in State, in bytes; 0 for none
	Shared int64 // limit of its shared memory, in bytes; 0 leaves it to the kernel
	// Objects bounds what programs share by number (System V IPC), in bytes; 0 leaves it to the
	// kernel.
	Objects int64

	// Mechanism is what confines the worker; "" for namespaces. Landlock uses Rules in place of
	// mounts.
	Mechanism sandbox.Mechanism
	Rules     []Rule

	Absent      []mountlist.Path // names that do not exist and must not be created
	GuardedDirs []mountlist.Path // directories that the session writes, in which the guard checks each name
	GitTargets  []mountlist.Path // paths in them that git settings lead to
	Unreadable  []mountlist.Path // hidden paths next to files that the session sees; opens for reading are checked, too
	Ask         bool             // hold a call that the user could allow

	writableDirs  []string
	userProtected []string    // protected paths that the user has named
	watch         *mountWatch // finds later changes; nil in the monitor
	gitEnv        []string    // variables that name git settings files
	unshownPaths  []string
	hiddenPaths   []homedir.HiddenPath
	revealedPaths []mountlist.Path // hidden paths that stay hidden only until they are replaced; a notice has reported them
	home          string
	tempDirs      []string
}

// maxMounts bounds the mounts of one plan. Each takes about ten microseconds.
const maxMounts = 2000

// An Origin holds the facts that a plan needs besides the sandbox itself.
type Origin struct {
	Home     string   // the user's home; Account is used if a home cannot be built from it
	Path     string   // the user's PATH
	Dir      string   // the worker's working directory, absolute
	Program  string   // the worker's executable
	State    string   // becomes Plan.State; it exists
	Sessions string   // the directory of all sessions, which this session must not see
	Files    []string // directories below Sessions that belong to this session

	// Directories are the directories that variables such as XDG_CONFIG_HOME name, by the names
	// below Home that they stand for, such as ".config".
	Directories map[string]string

	// Replaced maps files of the machine to the files that the session sees in their place.
	Replaced map[string]string

	// Settings is the directory for the files that replace settings below Home; "" for none.
	Settings string

	// Env is the environment of the user's programs; some variables name libraries.
	Env []string

	// Events makes it unnecessary to check every file when a turn starts; with nil, each turn
	// checks all of them.
	Events *filestate.ChangeEvents

	// OtherHomes are further home directories of the user; nil means those of Windows.
	OtherHomes []string

	// Account is the home directory of the user's account. If Home is another one, the session sees
	// Account like any directory of the machine, except for DefaultHidden.
	Account string

	// Temporary lists the directories that each session has separately; nil means the default ones.
	Temporary []string
}

// homeDir returns the user's home directory. If HOME names none, tools use that of the account.
func (i *Origin) homeDir() string {
	if filepath.IsAbs(i.Home) && filepath.Clean(i.Home) != "/" {
		return i.Home
	}
	return cmp.Or(i.Account, i.Home)
}

// otherHomeDir returns the other directory that tools may take for the home directory: that of the
// account, or HOME. It returns "" if there is none.
func (i *Origin) otherHomeDir() string {
	for _, dir := range []string{i.Home, i.Account} {
		if dir = paths.RealOrEmpty(dir); filepath.IsAbs(dir) && dir != paths.RealOrEmpty(i.homeDir()) {
			return dir
		}
	}
	return ""
}

// WritableDirs returns the user's directories that the session can write.
func (p *Plan) WritableDirs() []string { return p.writableDirs }

// PrivateDirs returns the directories that the session has separately.
func (p *Plan) PrivateDirs() []string {
	var all []string
	for _, m := range p.Mounts {
		if m.Kind == mountlist.EmptyDir {
			all = append(all, string(m.Path))
		}
	}
	return all
}
