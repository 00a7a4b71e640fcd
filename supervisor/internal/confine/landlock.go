package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/workers"
)

// A Rule lets a session read a path and all below it, or write it as well.
type Rule struct {
	Path  Path
	Write bool
}

// maxRules bounds the rules of a plan.
const maxRules = 5000

// sharedDirs are directories in which all programs of a user meet. Landlock gives a session
// none of its own, so it has none.
var sharedDirs = []string{"/dev/shm", "/dev/pts", "/dev/mqueue"}

// convertToLandlock turns a plan for namespaces into one for Landlock, and returns what it cannot
// hold. Landlock only allows, and what it allows for a directory holds for all below it: so a
// path is hidden by naming everything beside it, and nothing can be held in a directory that
// is written.
func (p *Plan) convertToLandlock(s *workers.Sandbox) (notices []string, err error) {
	if len(s.Protected) > 0 {
		return nil, fmt.Errorf("a sandbox by Landlock cannot keep %s as it is in a directory that the session writes", s.Protected[0])
	}
	r := &ruleCollector{}
	var open []Mount
	r.hidden = append(r.hidden, sharedDirs...)
	for _, place := range p.Mounts {
		switch place.Kind {
		case maskedPath, replacedFile, emptyDir, readOnlyParent, writableParent:
			r.hidden = append(r.hidden, string(place.Path))
		case writableBind, readOnlyBind, grantableBind, overlayMount:
			open = append(open, place)
		}
	}
	for _, path := range p.Unreadable {
		r.hidden = append(r.hidden, string(path))
	}
	r.addReadable("/")
	for _, place := range open {
		path := string(place.Path)
		if place.Kind != writableBind {
			if r.isHidden(path) {
				r.addReadable(path)
			}
			continue
		}
		if below := r.hiddenBelow(path); below != "" {
			return nil, fmt.Errorf("a sandbox by Landlock cannot hide %s in %s, which the session writes: name another directory", below, path)
		}
		r.add(path, true)
	}
	tmp := filepath.Join(string(p.State), "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	r.add(tmp, true)
	if len(r.list) > maxRules {
		return nil, fmt.Errorf("a sandbox by Landlock would need %d rules, and %d are allowed: hide fewer files", len(r.list), maxRules)
	}
	p.Mechanism, p.Rules, p.Ask, p.Absent = workers.Landlock, r.list, false, nil
	sockets, given := "no sockets but pairs", "cannot be given more while it runs"
	if p.Egress {
		sockets = "no servers, and hosts only through the proxy that its variables name (HTTPS_PROXY and others)"
		given = "cannot be given directories while it runs"
	}
	return []string{fmt.Sprintf(landlockNotice, sockets, given)}, nil
}

// landlockNotice says what a session by Landlock does not hold, and does not have.
const landlockNotice = "held by Landlock, which is weaker than namespaces: it can write hooks and settings in the workspace, see processes, the sizes and times of hidden files and, where process 1 is yours, the numbers of its open files (/proc/1/fd), and change modes and times of your files; it has %s, no terminals or shared memory, cannot list directories that hold something hidden, and %s"

// ruleCollector are collected for Landlock.
type ruleCollector struct {
	hidden []string
	list   []Rule
}

func (r *ruleCollector) add(path string, write bool) {
	r.list = append(r.list, Rule{Path(path), write})
}

// hiddenBelow returns a closed path below dir, or "".
func (r *ruleCollector) hiddenBelow(dir string) string {
	i := slices.IndexFunc(r.hidden, func(c string) bool { return c != dir && inside(c, dir) })
	if i < 0 {
		return ""
	}
	return r.hidden[i]
}

func (r *ruleCollector) isHidden(path string) bool {
	return slices.ContainsFunc(r.hidden, func(c string) bool { return inside(path, c) })
}

// addReadable adds a directory, or everything in it but what is closed. Names that come later
// into a directory with something closed cannot be read. Links need no rule: the paths that
// they lead to have one.
func (r *ruleCollector) addReadable(dir string) {
	if r.hiddenBelow(dir) == "" {
		r.add(dir, false)
		return
	}
	entries, _ := os.ReadDir(dir) // one that cannot be read needs no rule
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0, slices.Contains(r.hidden, path), len(r.list) > maxRules:
		case e.IsDir():
			r.addReadable(path)
		default:
			r.add(path, false)
		}
	}
}
