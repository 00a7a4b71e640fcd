//go:build unix

package discovery

import "io/fs"

// ExeSuffix ends the name of a program file.
const ExeSuffix = ""

const (
	homeVariable   = "HOME"
	pathSeparators = "/"
)

// EnvName returns the name of an environment variable in the form for comparisons.
func EnvName(name string) string { return name }

// SamePath reports whether two clean paths are equal for this system.
func SamePath(a, b string) bool { return a == b }

func isExecutable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }
