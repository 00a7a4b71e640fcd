package paths

import (
	"os"
	"path/filepath"
)

// Contains reports whether path is dir or below it. It compares text, and looks at no file: resolve
// the links of both paths first if they matter. The case of letters does not matter, and neither does
// a separator at the end. A separator alone, or "", contains every path that begins with a separator
// or a volume. A relative path is below a relative dir alone.
func Contains(dir, path string) bool {
	if dir == "" || len(dir) == 1 && os.IsPathSeparator(dir[0]) {
		return path == "" || os.IsPathSeparator(path[0]) || filepath.IsAbs(path)
	}
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}
