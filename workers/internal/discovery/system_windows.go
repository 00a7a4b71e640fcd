package discovery

import (
	"io/fs"
	"strings"
)

// ExeSuffix ends the name of a program file.
const ExeSuffix = ".exe"

const (
	homeVariable   = "USERPROFILE"
	pathSeparators = `\/`
)

// EnvName returns the name of an environment variable in the form for comparisons, which
// ignore case on Windows.
func EnvName(name string) string { return strings.ToUpper(name) }

// SamePath reports whether two clean paths are equal for this system.
func SamePath(a, b string) bool { return strings.EqualFold(a, b) }

func isExecutable(fs.FileInfo) bool { return true }
