package sandbox

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

// Intersect returns a policy for a session in dir that allows only what both policies allow.
// narrowed reports whether other takes anything from s; if not, the policy is s. Links are not
// followed: pass real paths.
func (s *Policy) Intersect(other *Policy, dir string) (policy *Policy, narrowed bool) {
	n := Policy{Level: Full, Network: NetworkFull, AskUser: true}
	if s.Confines() {
		n = *s
	}
	narrowed = n.restrictWrites(other.writableDirs(dir), s.writableDirs(dir), dir)
	if narrowed && len(n.Writable) > 0 { // paths that are writable regardless of content
		n.AcceptPaths = s.acceptedDirs(dir)
	}
	narrowed = n.restrictNetwork(other) || narrowed
	if other != nil {
		for _, add := range []struct {
			to   *[]string
			from []string
		}{{&n.Hidden, other.Hidden}, {&n.Protected, other.Protected}} {
			for _, path := range add.from {
				if !slices.Contains(*add.to, path) {
					*add.to = append(slices.Clip(*add.to), path)
					narrowed = true
				}
			}
		}
		before := len(n.Readable)
		n.Readable = slices.DeleteFunc(slices.Clone(n.Readable), func(path string) bool {
			return slices.ContainsFunc(other.Hidden, func(h string) bool { return paths.Contains(h, path) || paths.Contains(path, h) })
		})
		narrowed = narrowed || len(n.Readable) < before
	}
	if !narrowed {
		return s, false
	}
	if n.Level == Full { // without its workspace alone, there would be nothing to enforce the rest
		n.Level = Workspace
	}
	return &n, true
}

// writableDirs returns the directories that are writable with everything in them.
func (s *Policy) writableDirs(dir string) []string {
	switch {
	case !s.Confines():
		return []string{string(filepath.Separator)}
	case s.Level != Workspace:
		return s.Writable
	}
	return append([]string{cmp.Or(s.Workspace, dir)}, s.Writable...)
}

// acceptedDirs returns the directories that are writable regardless of their contents.
func (s *Policy) acceptedDirs(dir string) []string {
	switch {
	case !s.Confines():
		return []string{string(filepath.Separator)}
	case s.Level != Workspace:
		return s.AcceptPaths
	}
	return append(slices.Clip(s.AcceptPaths), cmp.Or(s.Workspace, dir))
}

// restrictWrites removes from own everything that other does not cover.
func (s *Policy) restrictWrites(other, own []string, dir string) (narrowed bool) {
	var both []string
	for _, a := range own {
		for _, b := range other {
			switch {
			case paths.Contains(a, b):
			case paths.Contains(b, a):
				b = a
			default:
				continue
			}
			if !slices.Contains(both, b) {
				both = append(both, b)
			}
		}
	}
	if slices.Equal(both, own) {
		return false
	}
	if s.Level == Workspace {
		dir = cmp.Or(s.Workspace, dir)
	}
	s.Level = ReadOnly
	if slices.ContainsFunc(both, func(b string) bool { return paths.Contains(b, dir) }) {
		s.Level = Workspace
		both = slices.DeleteFunc(both, func(b string) bool { return b == dir })
	}
	s.Writable = both
	return true
}

// restrictNetwork removes network access that other does not have. The user may still allow further
// hosts, as for any session.
func (s *Policy) restrictNetwork(other *Policy) (narrowed bool) {
	if !other.Confines() && (other == nil || other.Network != NetworkNone) || other.Network == NetworkFull || s.Network == NetworkNone {
		return false
	}
	if s.Network == NetworkFull {
		s.Network, s.Hosts = NetworkList, other.Hosts
		return true
	}
	before := len(s.Hosts)
	s.Hosts = slices.DeleteFunc(slices.Clone(s.Hosts), func(h string) bool { return !slices.Contains(other.Hosts, h) })
	return len(s.Hosts) < before
}
