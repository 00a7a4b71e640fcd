package mountlist

import (
	"cmp"
	"fmt"
	"path/filepath"
)

// A List collects the mounts of a plan, with what decided about them. For each path the last
// setting counts. It is for one goroutine.
type List struct {
	Mounts       map[string]Mount // by path; made by the caller
	Reason       Reason           // of the mounts that are being set
	Notices      []string         // lines for the users of the session
	CheckedPaths []string         // paths whose existence decided about a mount
	Sources      []string         // files and directories whose content decided about a mount
}

// Set sets the mount at a path.
func (l *List) Set(path string, k MountKind) {
	if path != "" {
		l.Mounts[path] = Mount{Path: Path(path), Kind: k, Reason: l.Reason}
	}
}

// WithReason calls set, and gives its mounts the reason why.
func (l *List) WithReason(why Reason, set func()) {
	l.Reason = why
	set()
	l.Reason = ""
}

// AddNotice adds a notice for the user of the session.
func (l *List) AddNotice(format string, args ...any) {
	l.Notices = append(l.Notices, fmt.Sprintf(format, args...))
}

// IsEmptyAt reports whether a path is in a private directory of the session, in which it sees only
// mounts.
func (l *List) IsEmptyAt(path string) bool {
	return l.NearestKind(path).IsEmptyDir()
}

// NearestKind returns the kind of the nearest mount around path, or "".
func (l *List) NearestKind(path string) MountKind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if m, ok := l.Mounts[d]; ok {
			return m.Kind
		}
	}
	return ""
}

// CanBeSeen reports whether the session may see a file of the machine at a path.
func (l *List) CanBeSeen(path string) bool {
	k := cmp.Or(l.Mounts[path].Kind, l.NearestKind(path))
	return k != MaskedPath && !(l.Mounts[path].Kind == "" && k.IsEmptyDir())
}

// IsInvisible reports whether the session does not see the machine's file at a path.
func (l *List) IsInvisible(path string) bool {
	k := l.Mounts[path].Kind
	return k == WritableParent || k == "" && l.IsEmptyAt(path)
}
