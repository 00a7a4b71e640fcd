package plan

import (
	"cmp"
	"fmt"
	"path/filepath"
)

// A mountList collects the mounts of a plan, with what decided about them. For each path the last
// setting counts.
type mountList struct {
	mounts       map[string]Mount
	reason       Reason // of the mounts that are being set
	notices      []string
	checkedPaths []string // paths whose existence decided about a mount
	sources      []string // files and directories whose content decided about a mount
}

func (l *mountList) set(path string, k MountKind) {
	if path != "" {
		l.mounts[path] = Mount{Path: Path(path), Kind: k, Reason: l.reason}
	}
}

// withReason calls set, and gives its mounts the reason why.
func (l *mountList) withReason(why Reason, set func()) {
	l.reason = why
	set()
	l.reason = ""
}

func (l *mountList) addNotice(format string, args ...any) {
	l.notices = append(l.notices, fmt.Sprintf(format, args...))
}

// isEmptyAt reports whether a path is in a directory of the session's own, so that it sees only
// mounts there.
func (l *mountList) isEmptyAt(path string) bool {
	return l.nearestKind(path).IsEmptyDir()
}

// nearestKind returns the kind of the nearest mount around path, or "".
func (l *mountList) nearestKind(path string) MountKind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if m, ok := l.mounts[d]; ok {
			return m.Kind
		}
	}
	return ""
}

// canBeSeen reports whether the session may see a file of the machine at a path.
func (l *mountList) canBeSeen(path string) bool {
	k := cmp.Or(l.mounts[path].Kind, l.nearestKind(path))
	return k != MaskedPath && !(l.mounts[path].Kind == "" && k.IsEmptyDir())
}

// isInvisible reports whether the session does not see the machine's file at a path.
func (l *mountList) isInvisible(path string) bool {
	k := l.mounts[path].Kind
	return k == WritableParent || k == "" && l.isEmptyAt(path)
}
