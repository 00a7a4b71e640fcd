//go:build !linux

package confined

import (
	"errors"
	"os/exec"
)

func withoutRights(*exec.Cmd, string) error { return errors.ErrUnsupported }
