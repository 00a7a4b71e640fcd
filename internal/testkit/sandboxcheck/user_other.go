//go:build !linux

package sandboxcheck

import (
	"errors"
	"os/exec"
)

func setUnprivileged(*exec.Cmd, string) error { return errors.ErrUnsupported }
