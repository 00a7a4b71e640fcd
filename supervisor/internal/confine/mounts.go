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

// A mount is one of the system's mounts.
type mount struct {
	device string // the filesystem
	root   string // which of its directories is mounted
	point  string // and where
	kind   string // of the filesystem
	source string // what it calls its device
}

// mounts parses /proc/self/mountinfo.
func mounts(list string) (all []mount) {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 4 {
			m := mount{device: f[2], root: unescape(f[3]), point: unescape(f[4])}
			if after := f[slices.Index(f, "-")+1:]; len(after) > 1 && len(after) < len(f) {
				m.kind, m.source = after[0], unescape(after[1])
			}
			all = append(all, m)
		}
	}
	return all
}

// unescape replaces the octal numbers that the kernel writes in place of spaces and some other characters.
func unescape(path string) string {
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

// A second is another place at which a directory shows, and the mount that it is in.
type second struct{ path, point string }

// readMounts returns the system's mounts; nil where it does not tell.
func readMounts() []mount {
	list, _ := os.ReadFile("/proc/self/mountinfo")
	return mounts(string(list))
}

// windowsHomes returns the home directories of Windows, where it has Linux in it. It mounts its drives below
// /mnt, or where /etc/wsl.conf says.
func windowsHomes(all []mount) (dirs []string) {
	drives := glob("/mnt", "?")
	for _, m := range all {
		if isDrive(m.source) && !slices.Contains(drives, m.point) {
			drives = append(drives, m.point)
		}
	}
	for _, drive := range drives {
		dirs = append(dirs, glob(drive, "Users/*")...)
	}
	return dirs
}

// isDrive reports whether the source of a mount is a drive of Windows, such as C: or C:\.
func isDrive(source string) bool {
	return len(source) == 2 && source[1] == ':' || len(source) == 3 && source[1:] == `:\`
}

// place returns the mount that shows a path, and the path in its filesystem.
func place(all []mount, path string) (own mount, at string) {
	for _, m := range all { // of two at one place the later one shows
		if inside(path, m.point) && len(m.point) >= len(own.point) {
			own = m
		}
	}
	return own, filepath.Join(own.root, strings.TrimPrefix(path, own.point))
}

// seconds returns where a directory shows besides its own path.
func seconds(all []mount, dir string) (found []second) {
	own, at := place(all, dir)
	for _, m := range all {
		if m.device != own.device || !inside(at, m.root) {
			continue
		}
		path := filepath.Join(m.point, strings.TrimPrefix(at, m.root))
		if path != dir && !slices.ContainsFunc(found, func(s second) bool { return s.path == path }) {
			found = append(found, second{path, m.point})
		}
	}
	return found
}

// parts returns where mounts show something in a directory, each with its path in that.
func parts(all []mount, dir string) map[string]string {
	found := map[string]string{}
	own, at := place(all, dir)
	for _, m := range all {
		if m.device == own.device && m.root != at && inside(m.root, at) && !inside(m.point, dir) {
			found[m.point] = filepath.Join(dir, strings.TrimPrefix(m.root, at))
		}
	}
	return found
}

// hideOthers hides what other mounts show of the home directory as a whole, and of what is hidden.
func (p *planner) hideOthers(needed []string) {
	all := readMounts()
	p.hideHomes(all, append(needed, p.home))
	p.hideOtherNames(all)
}

// hideOtherNames hides what mounts show of hidden places, or of something in one.
func (p *planner) hideOtherNames(all []mount) {
	names := map[string]bool{}
	for _, h := range p.closed {
		if h.at == "" || h.placed {
			continue
		}
		others := parts(all, h.at)
		for _, s := range seconds(all, h.at) {
			others[s.path] = h.at
		}
		for path, of := range others {
			if p.mayBeSeen(path) && isOneFile(path, of) {
				names[path] = true
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	for _, path := range sorted {
		p.closed = append(p.closed, closedPlace{name: path, at: path, alone: true})
	}
	if len(sorted) > 0 {
		p.notice("mounts show what is hidden under %d other names, such as %s, which are hidden, too", len(sorted), sorted[0])
	}
}

// mayBeSeen reports whether the session may see something of the machine at a path.
func (p *planner) mayBeSeen(path string) bool {
	k := cmp.Or(p.kinds[path].Kind, p.above(path))
	return k != hidden && !(p.kinds[path].Kind == "" && k.isEmpty())
}

// isOneFile reports whether two paths lead to one file or directory.
func isOneFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// hideHomes hides the mounts that show the whole home directory under another name. Where the session needs
// something else of such a mount, only the home directory in it is hidden.
func (p *planner) hideHomes(all []mount, needed []string) {
	if p.kinds[p.home].Kind != covered {
		return
	}
	for _, s := range seconds(all, p.home) {
		if !isOneFile(s.path, p.home) {
			continue // something else is mounted over it
		}
		holds := func(dir string) bool {
			return slices.ContainsFunc(needed, func(path string) bool { return inside(path, dir) })
		}
		switch {
		case !holds(s.point):
			p.set(s.point, hidden)
			p.closed = append(p.closed, closedPlace{name: s.point, at: s.point, placed: true})
			p.notice("%s shows your home directory under another name, so it is hidden from this session", s.point)
		case !holds(s.path):
			p.set(s.path, hidden)
			p.closed = append(p.closed, closedPlace{name: s.path, at: s.path, placed: true})
			p.notice("%s shows your home directory under another name, so it is hidden from this session", s.path)
		default: // it sees there what it needs
			p.set(s.path, covered)
		}
	}
}
