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

// SamePath reports whether two clean paths are written alike, as the system sees it.
func SamePath(a, b string) bool { return strings.EqualFold(a, b) }

func executable(fs.FileInfo) bool { return true }
