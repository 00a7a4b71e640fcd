package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

// A MountGrant gives a running session access to one more file or directory.
type MountGrant struct {
	Path       Path    // a real path
	ReadOnly   bool    // the session may read it, but not write it
	ParentDir  Path    // the session's own directory in which Path has no mount point yet; "" otherwise
	Mounts     []Mount // below Path, parents before children: protected paths; for a refresh: mounts to renew
	Removed    []Path  `json:",omitempty"` // for a refresh: mounts to remove
	Absent     []Path  // as in a Plan
	GitTargets []Path  // likewise
	Unreadable []Path  `json:",omitempty"` // for a refresh: likewise

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
func (p *Plan) resolveGrant(path string, read bool) (found string, nearest Mount, err error) {
	q := &planner{homeRules: homeRules{home: p.home, tempDirs: p.tempDirs, hiddenPaths: p.hiddenPaths}}
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
	if k := nearest.Kind; k == MaskedPath || !read && (k == ReadOnlyBind || k == GuardedFile || k == ReplacedFile) {
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
	grant := &MountGrant{Path: Path(found), ReadOnly: read}
	if nearest.Kind.IsEmptyDir() {
		grant.ParentDir = nearest.Path
	} else if read && (nearest.Kind != ReplacedFile || nearest.Reason != ReasonWrittenSettings) {
		return nil, nil
	}
	g := &planner{homeRules: homeRules{home: p.home, tempDirs: p.tempDirs}, mountList: mountList{mounts: map[string]Mount{}}, gitEnv: p.gitEnv}
	for _, place := range p.currentMounts() {
		if path := string(place.Path); paths.Contains(found, path) && path != found && place.Kind != SymbolicLink {
			g.mounts[path] = place
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
	for path, m := range g.mounts {
		if path != found {
			grant.Mounts = append(grant.Mounts, m)
		}
	}
	slices.SortFunc(grant.Mounts, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) })
	if text, err := json.Marshal(grant); err != nil || len(text) > maxGrantBytes {
		return nil, fmt.Errorf("the sandbox cannot give a running session access to %s: it contains too many paths that must be protected (%d); choose a subdirectory", path, len(grant.Mounts))
	}
	return grant, nil
}
