package plan

import (
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A planner collects what a plan consists of, from the rules of the home directory and the list of
// mounts to the paths in repositories.
type planner struct {
	homedir.Rules
	mountlist.List
	absent       []mountlist.Path
	gitTargets   []mountlist.Path
	gitViews     []*gitView
	ownRepos     map[string]bool // identities of repositories that the session created
	gitEnv       []string        // variables that name git settings files
	unshownPaths []string        // existing paths that are missing from the session's home directory

	workspaces int      // number of the work directories that come from the level
	strict     bool     // paths that cannot be shown are errors
	addedPaths []string // paths that the user has shown since the session's start

	missingDirs    []string                         // directories without a mount point when the session started
	knownDocuments map[string]bool                  // documents that the session sees; nil before the first search
	packageIndexes map[string]*homedir.PackageIndex // cached content of package directories
}

func newPlanner(o Origin) *planner {
	p := &planner{
		Rules:          homedir.Rules{Home: linkpath.RealOrAbsent(o.homeDir()), Directories: o.Directories},
		List:           mountlist.List{Mounts: map[string]mountlist.Mount{}},
		packageIndexes: map[string]*homedir.PackageIndex{}, gitEnv: gitdir.GitVariables(o.Env), ownRepos: gitdir.ReadOwnRepos(paths.RealOrEmpty(o.State)),
	}
	if o.Temporary == nil {
		o.Temporary = []string{"/tmp", "/var/tmp"}
	}
	for _, d := range o.Temporary {
		if d = paths.RealOrEmpty(d); d != "" && !slices.Contains(p.TempDirs, d) {
			p.TempDirs = append(p.TempDirs, d)
		}
	}
	return p
}

// homeBuilder returns a builder for the home directory of this plan.
func (p *planner) homeBuilder(o Origin, work []string) *homedir.Builder {
	h := homedir.NewBuilder(&p.Rules, &p.List, work, paths.RealOrEmpty(o.State))
	h.KnownDocuments, h.PackageIndexes = p.knownDocuments, p.packageIndexes
	return h
}
