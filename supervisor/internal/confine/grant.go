package confine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// A Grant gives a running session one more directory to write.
type Grant struct {
	Dir    Path    // real
	Places []Place // below Dir, parents before children: what stays as it is; of a refresh: what is shown anew
	Gone   []Path  `json:",omitempty"` // of a refresh: places that are not there any more
	Absent []Path  // as in a Plan
	Reach  []Path  // likewise

	Identity string // of Dir when this was planned

	views []*gitView
}

// maxGrant bounds a grant in bytes, because an order to the stage must fit into a pipe.
const maxGrant = 48 << 10

// Grantable returns the real path of a directory that could be given to a session that has the
// plan. The error says what is wrong with the directory.
func (p *Plan) Grantable(dir string) (string, error) {
	found, err := (&planner{home: p.home, temporary: p.temporary}).wanted(dir)
	if err != nil {
		return "", err
	}
	var nearest Place
	for _, place := range p.current() { // parents come first
		if inside(found, string(place.Path)) {
			nearest = place
		}
	}
	switch nearest.Kind {
	case "", writable, fixed, layer, readable:
		return found, nil
	case covered, built:
		return "", fmt.Errorf("the sandbox cannot make %s writable while the session runs: its home directory does not have it; name it when the session starts (--writable), or always (repl allow --always)", dir)
	}
	return "", fmt.Errorf("the sandbox cannot make %s writable: %s is %s in this session", dir, nearest.Path, nearest.Kind)
}

// NewGrant plans a grant for such a session.
func (p *Plan) NewGrant(dir string) (*Grant, error) {
	found, err := p.Grantable(dir)
	if err != nil {
		return nil, err
	}
	g := &planner{kinds: map[string]Place{}, home: p.home, temporary: p.temporary, git: p.git}
	for _, place := range p.current() {
		if path := string(place.Path); inside(path, found) && path != found {
			g.kinds[path] = place
		}
	}
	g.protect([]string{found}, maxSearched)
	g.keepAll(p.keep, []string{found})
	plan := &Grant{Dir: Path(found), Absent: g.absent, Reach: g.reach, Identity: identity(found), views: g.views}
	for path, place := range g.kinds {
		if path != found {
			plan.Places = append(plan.Places, place)
		}
	}
	slices.SortFunc(plan.Places, func(a, b Place) int { return cmp.Compare(a.Path, b.Path) })
	if text, err := json.Marshal(plan); err != nil || len(text) > maxGrant {
		return nil, fmt.Errorf("the sandbox cannot make %s writable while the session runs: it holds too much that must be protected (%d places); name a directory in it", dir, len(plan.Places))
	}
	return plan, nil
}
