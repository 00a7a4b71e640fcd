//go:build unix

package discovery

import "io/fs"

// ExeSuffix is the suffix of executable files.
const ExeSuffix = ""

const (
	homeVariable   = "HOME"
	pathSeparators = "/"
)

// SamePath reports whether two clean paths are equal on this system.
func SamePath(a, b string) bool { return a == b }

func isExecutable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }
