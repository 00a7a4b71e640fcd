package kernelspec

import (
	"os"
	"path/filepath"
	"slices"
)

// kernelDirs returns the directories that contain kernelspecs, those with precedence first. getenv is the
// environment of the session.
func kernelDirs(getenv func(string) string) []string {
	var all []string
	add := func(data string, below ...string) {
		if data == "" {
			return
		}
		dir := filepath.Join(append([]string{data}, below...)...)
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	for _, data := range filepath.SplitList(getenv("JUPYTER_PATH")) {
		add(data, "kernels")
	}
	if data := getenv("JUPYTER_DATA_DIR"); data != "" {
		add(data, "kernels")
	} else {
		add(userDataDir(getenv), "kernels")
	}
	for _, active := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		add(getenv(active), "share", "jupyter", "kernels")
	}
	for _, data := range systemDataDirs(getenv) {
		add(data, "kernels")
	}
	return all
}

// pythonEnvironment returns the environment that a kernelspec in dir belongs to, which is the PREFIX of
// PREFIX/share/jupyter/kernels/NAME, and a Python interpreter in it. Both are "" if they do not exist.
func pythonEnvironment(dir, python string) (prefix, interpreter string) {
	share := filepath.Dir(filepath.Dir(filepath.Dir(dir)))
	if filepath.Base(share) != "share" {
		return "", ""
	}
	prefix = filepath.Dir(share)
	for _, name := range []string{python, "python3", "python"} {
		for _, path := range programPaths(prefix, name) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return prefix, path
			}
		}
	}
	return prefix, ""
}
