package confine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// A Grant gives a running session one more file or directory.
type Grant struct {
	Path       Path    // real
	ReadOnly   bool    // the session sees it, and does not write it
	ParentDir  Path    // a directory of the session's own in which it is not there yet; else ""
	Mounts     []Mount // below Path, parents before children: what stays as it is; of a refresh: what is shown anew
	Removed    []Path  `json:",omitempty"` // of a refresh: places that are not there any more
	Absent     []Path  // as in a Plan
	GitTargets []Path  // likewise
	Unreadable []Path  `json:",omitempty"` // of a refresh: likewise

	Identity string // of Dir when this was planned

	gitViews []*gitView
}

// ErrReplaced says that a file or directory has the path of the one that a person meant, and is another.
var ErrReplaced = errors.New("it was replaced after you were asked")

// Identity returns what tells a file or directory from any other that has its path later; "" where nothing
// is there, and on systems that give a running session nothing.
func Identity(path string) string { return fileIdentity(path) }

// maxGrantBytes bounds a grant in bytes, because an order to the stage must fit into a pipe.
const maxGrantBytes = 48 << 10

// resolveGrant returns the path of a file or directory that could be given to a session that has the
// plan, and the place around it. The error says what is wrong with it.
func (p *Plan) resolveGrant(path string, read bool) (found string, nearest Mount, err error) {
	q := &planner{home: p.home, tempDirs: p.tempDirs, hiddenPaths: p.hiddenPaths}
	if read {
		found, err = q.resolveShowable(path)
	} else {
		found, err = q.resolveWritable(path)
	}
	if err != nil {
		return "", nearest, err
	}
	if found != filepath.Clean(path) { // a session may have put a link there since it was allowed
		return "", nearest, linkError("give %s", path, found)
	}
	for _, place := range p.currentMounts() { // parents come first
		if inside(found, string(place.Path)) {
			nearest = place
		}
	}
	if nearest.Kind.isEmptyDir() && !read { // what it does not see could have a secret in it
		err = checkShow(p.hiddenPaths, found)
	}
	if k := nearest.Kind; k == maskedPath || !read && (k == readOnlyBind || k == guardedFile || k == replacedFile) {
		err = fmt.Errorf("the sandbox cannot give %s to this session: %s is %s in it", path, nearest.Path, k)
	}
	return found, nearest, err
}

// NewGrant plans a grant for such a session. It is nil if the session sees the path already. id is the
// Identity of what has to be there; "" is anything.
func (p *Plan) NewGrant(path string, read bool, id string) (*Grant, error) {
	found, nearest, err := p.resolveGrant(path, read)
	if err != nil {
		return nil, err
	}
	grant := &Grant{Path: Path(found), ReadOnly: read}
	if nearest.Kind.isEmptyDir() {
		grant.ParentDir = nearest.Path
	} else if read && (nearest.Kind != replacedFile || nearest.Reason != ReasonWrittenSettings) {
		return nil, nil
	}
	g := &planner{mounts: map[string]Mount{}, home: p.home, tempDirs: p.tempDirs, gitEnv: p.gitEnv}
	for _, place := range p.currentMounts() {
		if path := string(place.Path); inside(path, found) && path != found && place.Kind != symbolicLink {
			g.mounts[path] = place
		}
	}
	if !read {
		g.protectDirs([]string{found}, maxSearchedEntries)
		g.protectNamed(p.userProtected, []string{found})
	}
	if grant.Identity = fileIdentity(found); id != "" && id != grant.Identity {
		return nil, ErrReplaced
	}
	grant.Absent, grant.GitTargets, grant.gitViews = g.absent, g.gitTargets, g.gitViews
	for path, place := range g.mounts {
		if path != found {
			grant.Mounts = append(grant.Mounts, place)
		}
	}
	slices.SortFunc(grant.Mounts, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) })
	if text, err := json.Marshal(grant); err != nil || len(text) > maxGrantBytes {
		return nil, fmt.Errorf("the sandbox cannot give %s to a session that runs: it holds too much that must be protected (%d places); name a directory in it", path, len(grant.Mounts))
	}
	return grant, nil
}
