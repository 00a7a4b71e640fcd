//go:build !darwin && !windows

package kernelspec

import "path/filepath"

func userDataDir(getenv func(string) string) string {
	if data := getenv("XDG_DATA_HOME"); data != "" {
		return filepath.Join(data, "jupyter")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "jupyter")
	}
	return ""
}

func systemDataDirs(func(string) string) []string {
	return []string{"/usr/local/share/jupyter", "/usr/share/jupyter"}
}

func programPaths(prefix, name string) []string { return []string{filepath.Join(prefix, "bin", name)} }
