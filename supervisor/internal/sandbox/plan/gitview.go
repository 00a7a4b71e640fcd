package plan

import (
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

const (
	// maxViewsPerDir bounds the repositories in one directory whose settings are checked when a
	// turn starts, in the order in which they were found.
	maxViewsPerDir = 16
	// maxViews bounds such repositories in all directories that a session writes.
	maxViews = 64
)

// A gitView records the files from which git reads the settings of a work tree. The session can
// change only plain settings in them; programs outside can change anything.
type gitView struct {
	work, config, base string
	origins            filestate.Records
	gitEnv             []string // variables that name git settings files
}

func newGitView(work, config, base string, origins map[string]bool, named map[string]string) *gitView {
	v := &gitView{work: work, config: config, base: base, origins: filestate.Records{}}
	for file := range origins {
		v.origins.RecordFile(file)
	}
	for file, what := range named {
		if what == namedSettings { // it may be created later
			v.origins.RecordFile(file)
		}
	}
	return v
}

func (v *gitView) isStale() bool { return v.origins.IsStale() }

// readTargets reads the settings again, and returns the paths that they lead to.
func (v *gitView) readTargets(home string) (targets []mountlist.Path) {
	p := &planner{Rules: homedir.Rules{Home: home}, List: mountlist.List{Mounts: map[string]mountlist.Mount{}}, gitEnv: v.gitEnv}
	(&repoSearch{p: p}).protectWorkTree(v.work, v.base)
	for _, view := range p.gitViews {
		*v = *view
	}
	if len(p.gitViews) == 0 { // git reads no settings for it now
		for file := range v.origins {
			v.origins.RecordFile(file)
		}
	}
	return p.gitTargets
}
