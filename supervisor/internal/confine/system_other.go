//go:build !linux

package confine

import (
	"errors"
	"fmt"
)

func sameFilesystem(a, b string) bool { return false }

// Supported says why no worker can be confined here.
func Supported() error {
	return fmt.Errorf("a sandbox: %w on this system: --sandbox full does without one", errors.ErrUnsupported)
}
