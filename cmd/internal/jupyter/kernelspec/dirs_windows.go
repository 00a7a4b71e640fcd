package kernelspec

import "path/filepath"

func userDataDir(getenv func(string) string) string {
	if data := getenv("APPDATA"); data != "" {
		return filepath.Join(data, "jupyter")
	}
	return ""
}

func systemDataDirs(getenv func(string) string) []string {
	if data := getenv("PROGRAMDATA"); data != "" {
		return []string{filepath.Join(data, "jupyter")}
	}
	return nil
}

func programPaths(prefix, name string) []string {
	return []string{filepath.Join(prefix, name+".exe"), filepath.Join(prefix, "Scripts", name+".exe")}
}
