package paths

import (
	"os"
	"path/filepath"
)

// Contains reports whether path is dir or below it. It compares text only, and does not look at
// files. If links matter, resolve those of both paths first. The case of letters does not matter, and
// neither does a separator at the end. A separator alone, or "", contains every path that begins with
// a separator or a volume. A relative path can only be below a relative dir.
func Contains(dir, path string) bool {
	if dir == "" || len(dir) == 1 && os.IsPathSeparator(dir[0]) {
		return path == "" || os.IsPathSeparator(path[0]) || filepath.IsAbs(path)
	}
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}
