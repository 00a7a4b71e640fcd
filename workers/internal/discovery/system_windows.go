package discovery

import (
	"io/fs"
	"strings"
)

// ExeSuffix is the suffix of executable files.
const ExeSuffix = ".exe"

const (
	homeVariable   = "USERPROFILE"
	pathSeparators = `\/`
)

// SamePath reports whether two clean paths are equal on this system.
func SamePath(a, b string) bool { return strings.EqualFold(a, b) }

func isExecutable(fs.FileInfo) bool { return true }
