package kernelspec

import "path/filepath"

func userDataDir(getenv func(string) string) string {
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, "Library", "Jupyter")
	}
	return ""
}

func systemDataDirs(func(string) string) []string {
	return []string{"/usr/local/share/jupyter", "/usr/share/jupyter", "/opt/homebrew/share/jupyter"}
}

func programPaths(prefix, name string) []string { return []string{filepath.Join(prefix, "bin", name)} }
