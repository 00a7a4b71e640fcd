package confine

import (
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
}

// mounts parses /proc/self/mountinfo.
func mounts(list string) (all []mount) {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 4 {
			all = append(all, mount{f[2], unescape(f[3]), unescape(f[4])})
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

// seconds returns where a directory shows besides its own path.
func seconds(all []mount, dir string) (found []second) {
	var own mount
	for _, m := range all { // of two at one place the later one shows
		if inside(dir, m.point) && len(m.point) >= len(own.point) {
			own = m
		}
	}
	at := filepath.Join(own.root, strings.TrimPrefix(dir, own.point))
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

// hideOthers hides the mounts that show the whole home directory under another name. Where the session needs
// something else of such a mount, only the home directory in it is hidden.
func (p *planner) hideOthers(needed []string) {
	home, err := os.Stat(p.home)
	if err != nil || p.kinds[p.home].Kind != covered {
		return
	}
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return // not a system that has one
	}
	needed = append(needed, p.home)
	for _, s := range seconds(mounts(string(list)), p.home) {
		if st, err := os.Stat(s.path); err != nil || !os.SameFile(st, home) {
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
