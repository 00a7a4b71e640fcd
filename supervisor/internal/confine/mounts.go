package confine

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A mountInfo is one of the system's mounts.
type mountInfo struct {
	device string // the filesystem
	root   string // which of its directories is mounted
	point  string // and where
	kind   string // of the filesystem
	source string // what it calls its device
}

// parseMountInfo parses /proc/self/mountinfo.
func parseMountInfo(list string) (all []mountInfo) {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 4 {
			m := mountInfo{device: f[2], root: unescapeOctal(f[3]), point: unescapeOctal(f[4])}
			if after := f[slices.Index(f, "-")+1:]; len(after) > 1 && len(after) < len(f) {
				m.kind, m.source = after[0], unescapeOctal(after[1])
			}
			all = append(all, m)
		}
	}
	return all
}

// unescapeOctal replaces the octal numbers that the kernel writes in place of spaces and some other characters.
func unescapeOctal(path string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(path, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n, err := strconv.ParseUint(after[:min(3, len(after))], 8, 8)
		if err != nil {
			b.WriteString(`\` + after)
			return b.String()
		}
		b.WriteByte(byte(n))
		path = after[3:]
	}
}

// A mountAlias is another place at which a directory shows, and the mount that it is in.
type mountAlias struct{ path, point string }

// readMounts returns the system's mounts; nil where it does not tell.
func readMounts() []mountInfo {
	list, _ := os.ReadFile("/proc/self/mountinfo")
	return parseMountInfo(string(list))
}

// windowsHomes returns the home directories of Windows, where it has Linux in it. It mounts its drives below
// /mnt, or where /etc/wsl.conf says.
func windowsHomes(all []mountInfo) (dirs []string) {
	drives := globPaths("/mnt", "?")
	for _, m := range all {
		if isDrive(m.source) && !slices.Contains(drives, m.point) {
			drives = append(drives, m.point)
		}
	}
	for _, drive := range drives {
		dirs = append(dirs, globPaths(drive, "Users/*")...)
	}
	return dirs
}

// isDrive reports whether the source of a mount is a drive of Windows, such as C: or C:\.
func isDrive(source string) bool {
	return len(source) == 2 && source[1] == ':' || len(source) == 3 && source[1:] == `:\`
}

// mountOf returns the mount that shows a path, and the path in its filesystem.
func mountOf(all []mountInfo, path string) (own mountInfo, at string) {
	for _, m := range all { // of two at one place the later one shows
		if inside(path, m.point) && len(m.point) >= len(own.point) {
			own = m
		}
	}
	return own, filepath.Join(own.root, strings.TrimPrefix(path, own.point))
}

// mountAliases returns where a directory shows besides its own path.
func mountAliases(all []mountInfo, dir string) (found []mountAlias) {
	own, at := mountOf(all, dir)
	for _, m := range all {
		if m.device != own.device || !inside(at, m.root) {
			continue
		}
		path := filepath.Join(m.point, strings.TrimPrefix(at, m.root))
		if path != dir && !slices.ContainsFunc(found, func(s mountAlias) bool { return s.path == path }) {
			found = append(found, mountAlias{path, m.point})
		}
	}
	return found
}

// mountsInside returns where mounts show something in a directory, each with its path in that.
func mountsInside(all []mountInfo, dir string) map[string]string {
	found := map[string]string{}
	own, at := mountOf(all, dir)
	for _, m := range all {
		if m.device == own.device && m.root != at && inside(m.root, at) && !inside(m.point, dir) {
			found[m.point] = filepath.Join(dir, strings.TrimPrefix(m.root, at))
		}
	}
	return found
}

// hideAliases hides what other mounts show of the home directory as a whole, and of what is hidden.
func (p *planner) hideAliases(needed []string) {
	all := readMounts()
	p.hideHomeAliases(all, append(needed, p.home))
	p.hidePathAliases(all)
}

// hidePathAliases hides what mounts show of hidden places, or of something in one.
func (p *planner) hidePathAliases(all []mountInfo) {
	names := map[string]bool{}
	for _, h := range p.hiddenPaths {
		if h.realPath == "" || h.isPlanned {
			continue
		}
		others := mountsInside(all, h.realPath)
		for _, s := range mountAliases(all, h.realPath) {
			others[s.path] = h.realPath
		}
		for path, of := range others {
			if p.canBeSeen(path) && isSameFile(path, of) {
				names[path] = true
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	for _, path := range sorted {
		p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: path, realPath: path, isMaskedOnly: true})
	}
	if len(sorted) > 0 {
		p.addNotice("mounts show what is hidden under %d other names, such as %s, which are hidden, too", len(sorted), sorted[0])
	}
}

// canBeSeen reports whether the session may see something of the machine at a path.
func (p *planner) canBeSeen(path string) bool {
	k := cmp.Or(p.mounts[path].Kind, p.nearestKind(path))
	return k != maskedPath && !(p.mounts[path].Kind == "" && k.isEmptyDir())
}

// isSameFile reports whether two paths lead to one file or directory.
func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// hideHomeAliases hides the mounts that show the whole home directory under another name. Where the session needs
// something else of such a mount, only the home directory in it is hidden.
func (p *planner) hideHomeAliases(all []mountInfo, needed []string) {
	if p.mounts[p.home].Kind != readOnlyParent {
		return
	}
	for _, s := range mountAliases(all, p.home) {
		if !isSameFile(s.path, p.home) {
			continue // something else is mounted over it
		}
		holds := func(dir string) bool {
			return slices.ContainsFunc(needed, func(path string) bool { return inside(path, dir) })
		}
		switch {
		case !holds(s.point):
			p.set(s.point, maskedPath)
			p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: s.point, realPath: s.point, isPlanned: true})
			p.addNotice("%s shows your home directory under another name, so it is hidden from this session", s.point)
		case !holds(s.path):
			p.set(s.path, maskedPath)
			p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: s.path, realPath: s.path, isPlanned: true})
			p.addNotice("%s shows your home directory under another name, so it is hidden from this session", s.path)
		default: // it sees there what it needs
			p.set(s.path, readOnlyParent)
		}
	}
}
