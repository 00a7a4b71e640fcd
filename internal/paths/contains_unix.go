//go:build unix

package paths

import "strings"

// Contains reports whether path is dir or below it. It compares text only, and does not look at
// files. If links matter, resolve those of both paths first. Clean both paths ([filepath.Clean]),
// because ".." and "." are names like any other here. One slash at the end of either path does not
// matter, so "/" contains every absolute path; "" stands for "/". A relative path can only be below
// a relative dir.
// It has many callers, which a copy of it would make larger.
//
//go:noinline
func Contains(dir, path string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}
