package discovery

import (
	"io/fs"
	"strings"
)

// ExeSuffix is what the name of a program ends in.
const ExeSuffix = ".exe"

const (
	homeVariable   = "USERPROFILE"
	pathSeparators = `\/`
)

// EnvName is the form in which names of environment variables are compared: those
// of Windows do not depend on case.
func EnvName(name string) string { return strings.ToUpper(name) }

func executable(fs.FileInfo) bool { return true }
