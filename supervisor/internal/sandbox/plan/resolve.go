package plan

import (
	"fmt"
	"os"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
)

// resolveWritable resolves a file or directory that a user wants to be writable.
func (p *planner) resolveWritable(path string) (string, error) {
	found, err := resolvePlain("make %s writable", path)
	if err != nil {
		return "", err
	}
	if why := p.TooWideReason(found); why != "" {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it %s; name a directory in it", path, why)
	}
	return found, nil
}

func resolveDirectory(dir string) (string, error) {
	found, err := resolvePlain("make %s writable", dir)
	if err != nil {
		return "", err
	}
	if !linkpath.IsDir(found) {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it is not a directory", dir)
	}
	return found, nil
}

// resolvePlain resolves a path, which must be that of a directory or a regular file.
func resolvePlain(do, path string) (string, error) {
	found, err := paths.Real(path)
	if err != nil {
		return "", fmt.Errorf("the sandbox cannot "+do+": %w", path, err)
	}
	if st, err := os.Stat(found); err != nil || !st.IsDir() && !st.Mode().IsRegular() {
		return "", fmt.Errorf("the sandbox cannot "+do+": it is neither a directory nor a regular file", path)
	}
	return found, nil
}

// linkError returns an error that a path must be named without its links.
func linkError(do, path, found string) error {
	return fmt.Errorf("the sandbox does not "+do+": it leads to %s through a link that a session may have made; to allow it, name that path", path, found)
}
