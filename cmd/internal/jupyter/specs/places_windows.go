package specs

import "path/filepath"

func userData(getenv func(string) string) string {
	if data := getenv("APPDATA"); data != "" {
		return filepath.Join(data, "jupyter")
	}
	return ""
}

func systemData(getenv func(string) string) []string {
	if data := getenv("PROGRAMDATA"); data != "" {
		return []string{filepath.Join(data, "jupyter")}
	}
	return nil
}

func programs(prefix, name string) []string {
	return []string{filepath.Join(prefix, name+".exe"), filepath.Join(prefix, "Scripts", name+".exe")}
}
