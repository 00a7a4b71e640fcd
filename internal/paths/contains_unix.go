//go:build unix

package paths

import "strings"

// Contains reports whether path is dir or below it. It compares text, and looks at no file: resolve
// the links of both paths first if they matter, and clean them ([filepath.Clean]), because ".." and
// "." are names like any other here. One slash at the end of either path does not matter, so "/"
// contains every absolute path; "" stands for "/". A relative path is below a relative dir alone.
func Contains(dir, path string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}
