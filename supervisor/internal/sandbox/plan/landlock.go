package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A Rule lets a session read a path and everything below it, or also write it.
type Rule struct {
	Path  mountlist.Path
	Write bool
}

// maxRules bounds the rules of a plan.
const maxRules = 5000

// sharedDirs are directories that all programs of a user share. Landlock cannot give a session
// private ones, so they are hidden.
var sharedDirs = []string{"/dev/shm", "/dev/pts", "/dev/mqueue"}

// convertToLandlock turns a plan for namespaces into one for Landlock, and returns notices about
// what Landlock cannot enforce. Landlock only allows, and a rule for a directory applies to
// everything below it. So a path is hidden by allowing everything next to it, and nothing can be
// protected in a directory that the session writes.
func (p *Plan) convertToLandlock(s *sandbox.Policy) (notices []string, err error) {
	if len(s.Protected) > 0 {
		return nil, fmt.Errorf("a Landlock sandbox cannot protect %s in a directory that the session writes", s.Protected[0])
	}
	r := &ruleCollector{}
	var visible []mountlist.Mount
	r.hidden = append(r.hidden, sharedDirs...)
	for _, place := range p.Mounts {
		switch place.Kind {
		case mountlist.MaskedPath, mountlist.ReplacedFile, mountlist.EmptyDir, mountlist.ReadOnlyParent, mountlist.WritableParent:
			r.hidden = append(r.hidden, string(place.Path))
		case mountlist.WritableBind, mountlist.ReadOnlyBind, mountlist.GrantableBind, mountlist.OverlayMount:
			visible = append(visible, place)
		}
	}
	for _, path := range p.Unreadable {
		r.hidden = append(r.hidden, string(path))
	}
	r.addReadable("/")
	for _, place := range visible {
		path := string(place.Path)
		if place.Kind != mountlist.WritableBind {
			if r.isHidden(path) {
				r.addReadable(path)
			}
			continue
		}
		if below := r.hiddenBelow(path); below != "" {
			return nil, fmt.Errorf("a Landlock sandbox cannot hide %s in %s, which the session writes; name another directory", below, path)
		}
		r.add(path, true)
	}
	tmp := filepath.Join(string(p.State), "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	r.add(tmp, true)
	if len(r.list) > maxRules {
		return nil, fmt.Errorf("the Landlock sandbox would need %d rules, and the maximum is %d; hide fewer files", len(r.list), maxRules)
	}
	p.Mechanism, p.Rules, p.Ask, p.Absent = sandbox.Landlock, r.list, false, nil
	sockets, grants := "no sockets except socket pairs", "cannot be granted more while it runs"
	if p.Egress {
		sockets = "no servers, and reaches hosts only through the proxy in its variables (HTTPS_PROXY and others)"
		grants = "cannot be granted directories while it runs"
	}
	return []string{fmt.Sprintf(landlockNotice, sockets, grants)}, nil
}

// landlockNotice says what a Landlock session is not protected from, and what it lacks.
const landlockNotice = "confined by Landlock, which is weaker than namespaces: the session can write hooks and settings in the workspace, see processes, the sizes and times of hidden files and, if process 1 is yours, the numbers of its open files (/proc/1/fd), and change modes and times of your files; it has %s, no terminals or shared memory, cannot list directories that contain hidden files, and %s"

// A ruleCollector collects the rules of a Landlock plan and the paths that they must not allow.
type ruleCollector struct {
	hidden []string
	list   []Rule
}

func (r *ruleCollector) add(path string, write bool) {
	r.list = append(r.list, Rule{mountlist.Path(path), write})
}

// hiddenBelow returns a hidden path below dir, or "".
func (r *ruleCollector) hiddenBelow(dir string) string {
	i := slices.IndexFunc(r.hidden, func(c string) bool { return c != dir && paths.Contains(dir, c) })
	if i < 0 {
		return ""
	}
	return r.hidden[i]
}

func (r *ruleCollector) isHidden(path string) bool {
	return slices.ContainsFunc(r.hidden, func(c string) bool { return paths.Contains(c, path) })
}

// addReadable adds a rule for a directory, or for everything in it but the hidden paths. Names that
// are created later in a directory with a hidden path cannot be read. Links need no rule, because
// their targets have one.
func (r *ruleCollector) addReadable(dir string) {
	if r.hiddenBelow(dir) == "" {
		r.add(dir, false)
		return
	}
	entries, _ := os.ReadDir(dir) // a directory that cannot be read needs no rule
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
