package fileaccess

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// readFault says why a session does not see the machine's file at a path, whose nearest mount is
// given; "" if it sees it.
func readFault(path string, at mountlist.Mount) string {
	switch {
	case at.Kind == mountlist.MaskedPath:
		return fmt.Sprintf("%s is hidden from the session", path)
	case at.Kind.IsSessionOnly():
		return ownVersion(at)
	}
	return ""
}

// writeFault says why a session cannot write at a path in the machine's files; "" if it can.
func writeFault(path string, at mountlist.Mount) string {
	switch {
	case at.Kind == mountlist.WritableBind, at.Kind == mountlist.PinnedBind:
		return ""
	case at.Kind == mountlist.MaskedPath:
		return fmt.Sprintf("%s is hidden from the session", path)
	case at.Kind.IsSessionOnly() && at.Kind != mountlist.ReplacedFile:
		return ownVersion(at)
	}
	return fmt.Sprintf("%s is read-only for the session", path)
}

// ownVersion says that only the session sees what it has at a path.
func ownVersion(at mountlist.Mount) string {
	return fmt.Sprintf("the session has its own version of %s, which is not visible outside of its sandbox; use its working directory, and let its code copy the file", at.Path)
}
