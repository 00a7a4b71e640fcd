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
	Path   Path    // real
	Read   bool    // the session sees it, and does not write it
	In     Path    // a directory of the session's own in which it is not there yet; else ""
	Places []Place // below Path, parents before children: what stays as it is; of a refresh: what is shown anew
	Gone   []Path  `json:",omitempty"` // of a refresh: places that are not there any more
	Absent []Path  // as in a Plan
	Reach  []Path  // likewise
	Closed []Path  `json:",omitempty"` // of a refresh: likewise

	Identity string // of Dir when this was planned

	views []*gitView
}

// ErrReplaced says that a file or directory has the path of the one that a person meant, and is another.
var ErrReplaced = errors.New("it was replaced after you were asked")

// Identity returns what tells a file or directory from any other that has its path later; "" where nothing
// is there, and on systems that give a running session nothing.
func Identity(path string) string { return identity(path) }

// maxGrant bounds a grant in bytes, because an order to the stage must fit into a pipe.
const maxGrant = 48 << 10

// grantable returns the path of a file or directory that could be given to a session that has the
// plan, and the place around it. The error says what is wrong with it.
func (p *Plan) grantable(path string, read bool) (found string, nearest Place, err error) {
	q := &planner{home: p.home, temporary: p.temporary, closed: p.closed}
	if read {
		found, err = q.showable(path)
	} else {
		found, err = q.wanted(path)
	}
	if err != nil {
		return "", nearest, err
	}
	if found != filepath.Clean(path) { // a session may have put a link there since it was allowed
		return "", nearest, linkError("give %s", path, found)
	}
	for _, place := range p.current() { // parents come first
		if inside(found, string(place.Path)) {
			nearest = place
		}
	}
	if nearest.Kind.isEmpty() && !read { // what it does not see could have a secret in it
		err = mayShow(p.closed, found)
	}
	if k := nearest.Kind; k == hidden || !read && (k == protected || k == guarded || k == replaced) {
		err = fmt.Errorf("the sandbox cannot give %s to this session: %s is %s in it", path, nearest.Path, k)
	}
	return found, nearest, err
}

// NewGrant plans a grant for such a session. It is nil if the session sees the path already. id is the
// Identity of what has to be there; "" is anything.
func (p *Plan) NewGrant(path string, read bool, id string) (*Grant, error) {
	found, nearest, err := p.grantable(path, read)
	if err != nil {
		return nil, err
	}
	grant := &Grant{Path: Path(found), Read: read}
	if nearest.Kind.isEmpty() {
		grant.In = nearest.Path
	} else if read && (nearest.Kind != replaced || nearest.Why != Written) {
		return nil, nil
	}
	g := &planner{kinds: map[string]Place{}, home: p.home, temporary: p.temporary, git: p.git}
	for _, place := range p.current() {
		if path := string(place.Path); inside(path, found) && path != found && place.Kind != linked {
			g.kinds[path] = place
		}
	}
	if !read {
		g.protect([]string{found}, maxSearched)
		g.keepAll(p.keep, []string{found})
	}
	if grant.Identity = identity(found); id != "" && id != grant.Identity {
		return nil, ErrReplaced
	}
	grant.Absent, grant.Reach, grant.views = g.absent, g.reach, g.views
	for path, place := range g.kinds {
		if path != found {
			grant.Places = append(grant.Places, place)
		}
	}
	slices.SortFunc(grant.Places, func(a, b Place) int { return cmp.Compare(a.Path, b.Path) })
	if text, err := json.Marshal(grant); err != nil || len(text) > maxGrant {
		return nil, fmt.Errorf("the sandbox cannot give %s to a session that runs: it holds too much that must be protected (%d places); name a directory in it", path, len(grant.Places))
	}
	return grant, nil
}
