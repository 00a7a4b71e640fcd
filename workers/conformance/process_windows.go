package conformance

import (
	"errors"
	"os"
	"os/exec"
)

var errWindows = errors.New("the suite needs a Unix terminal; run it where there is one")

func ownSession(*exec.Cmd) error            { return errWindows }
func signalInterrupt(*exec.Cmd, bool) error { return errWindows }
func killSession(*exec.Cmd)                 {}
func inode(*os.File) uint64                 { return 0 }
func pollable(*os.File) (*os.File, error)   { return nil, errWindows }
