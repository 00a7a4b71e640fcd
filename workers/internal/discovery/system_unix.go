//go:build unix

package discovery

import "io/fs"

// ExeSuffix is what the name of a program ends in.
const ExeSuffix = ""

const (
	homeVariable   = "HOME"
	pathSeparators = "/"
)

// EnvName is the form in which names of environment variables are compared.
func EnvName(name string) string { return name }

// SamePath reports whether two clean paths are written alike, as the system sees it.
func SamePath(a, b string) bool { return a == b }

func executable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }
