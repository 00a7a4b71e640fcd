package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/workers"
)

// Ways are the mechanisms that are tried for a user who accepts this one, in order.
func Ways(accepted workers.Mechanism) []workers.Mechanism {
	if accepted == workers.Landlock {
		return []workers.Mechanism{"", workers.Landlock}
	}
	return []workers.Mechanism{""}
}

// Supported says why no worker can be confined in this way here. nil does not promise success.
func Supported(by workers.Mechanism) error {
	if by == workers.Seatbelt {
		return fmt.Errorf("seatbelt: %w: it is the sandbox of macOS", errors.ErrUnsupported)
	}
	return supportedFilter()
}

// Trial is a program that does nothing, to be confined.
const Trial = "/bin/true"

func sameFilesystem(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}
