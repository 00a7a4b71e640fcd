package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sort"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A MountGrant gives a running session access to one more file or directory.
type MountGrant struct {
	Path       mountlist.Path    // a real path
	ReadOnly   bool              // the session may read it, but not write it
	ParentDir  mountlist.Path    // the session's own directory in which Path has no mount point yet; "" otherwise
	Mounts     []mountlist.Mount // below Path, parents before children: protected paths; for a refresh: mounts to renew
	Removed    []mountlist.Path  `json:",omitempty"` // for a refresh: mounts to remove
	Absent     []mountlist.Path  // as in a Plan
	GitTargets []mountlist.Path  // likewise
	Unreadable []mountlist.Path  `json:",omitempty"` // for a refresh: likewise

	Identity string // of Path when the grant was planned

	gitViews []*gitView
}

// ErrReplaced reports that the file or directory was replaced by another one since the user was
// asked about it.
var ErrReplaced = errors.New("it was replaced after you were asked")

// maxGrantBytes bounds the JSON of a grant, because a command to the monitor must fit into a pipe.
const maxGrantBytes = 48 << 10

// resolveGrant returns the path of a file or directory that could be granted to a session of the
// plan, and the mount around it. The error says why it cannot be granted.
func (p *Plan) resolveGrant(path string, read bool) (found string, nearest mountlist.Mount, err error) {
	q := &planner{Rules: homedir.Rules{Home: p.home, TempDirs: p.tempDirs, HiddenPaths: p.hiddenPaths}}
	if read {
		found, err = q.resolveShowable(path)
	} else {
		found, err = q.resolveWritable(path)
	}
	if err != nil {
		return "", nearest, err
	}
	if found != filepath.Clean(path) { // a session may have put a link there since it was allowed
		return "", nearest, linkError("give access to %s", path, found)
	}
	for _, place := range p.currentMounts() { // parents come first, so the last match is the nearest
		if paths.Contains(string(place.Path), found) {
			nearest = place
		}
	}
	if nearest.Kind.IsEmptyDir() && !read { // an unseen directory may contain secrets
		err = checkShow(p.hiddenPaths, found)
	}
	if k := nearest.Kind; k == mountlist.MaskedPath || !read && (k == mountlist.ReadOnlyBind || k == mountlist.GuardedFile || k == mountlist.ReplacedFile) {
		err = fmt.Errorf("the sandbox cannot give this session access to %s: %s is %s in it", path, nearest.Path, k)
	}
	return found, nearest, err
}

// NewGrant plans a grant for a session of the plan. It returns nil if the session sees the path
// already. id is the filestate.IdentityOf that the file must still have; "" accepts any.
func (p *Plan) NewGrant(path string, read bool, id string) (*MountGrant, error) {
	found, nearest, err := p.resolveGrant(path, read)
	if err != nil {
		return nil, err
	}
	grant := &MountGrant{Path: mountlist.Path(found), ReadOnly: read}
	if nearest.Kind.IsEmptyDir() {
		grant.ParentDir = nearest.Path
	} else if read && (nearest.Kind != mountlist.ReplacedFile || nearest.Reason != mountlist.ReasonWrittenSettings) {
		return nil, nil
	}
	g := &planner{Rules: homedir.Rules{Home: p.home, TempDirs: p.tempDirs}, List: mountlist.List{Mounts: map[string]mountlist.Mount{}}, gitEnv: p.gitEnv}
	for _, place := range p.currentMounts() {
		if path := string(place.Path); paths.Contains(found, path) && path != found && place.Kind != mountlist.SymbolicLink {
			g.Mounts[path] = place
		}
	}
	if !read {
		g.protectDirs([]string{found}, maxSearchedEntries)
		g.protectNamed(p.userProtected, []string{found})
	}
	if grant.Identity = filestate.IdentityOf(found); id != "" && id != grant.Identity {
		return nil, ErrReplaced
	}
	grant.Absent, grant.GitTargets, grant.gitViews = g.absent, g.gitTargets, g.gitViews
	for path, m := range g.Mounts {
		if path != found {
			grant.Mounts = append(grant.Mounts, m)
		}
	}
	sort.SliceStable(grant.Mounts, func(i, j int) bool { return grant.Mounts[i].Path < grant.Mounts[j].Path })
	if text, err := json.Marshal(grant); err != nil || len(text) > maxGrantBytes {
		return nil, fmt.Errorf("the sandbox cannot give a running session access to %s: it contains too many paths that must be protected (%d); choose a subdirectory", path, len(grant.Mounts))
	}
	return grant, nil
}
