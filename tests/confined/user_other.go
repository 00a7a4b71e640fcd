//go:build !linux

package confined

import (
	"errors"
	"os/exec"
)

func setUnprivileged(*exec.Cmd, string) error { return errors.ErrUnsupported }
