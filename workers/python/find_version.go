package python

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// The oldest Python that the worker runs on.
const minMajor, minMinor = 3, 8

// parseInstallName reads the name of a directory that pyenv ("3.12.1") or uv
// ("cpython-3.12.1-linux-x86_64-gnu") created, or returns nil for any other name.
func parseInstallName(name string) discovery.Version {
	if rest, ok := strings.CutPrefix(name, "cpython-"); ok {
		name, _, _ = strings.Cut(rest, "-")
	}
	return discovery.ParseVersion(name)
}

// versionAt returns the version of the interpreter at path, or nil if it is unknown. It reads pyvenv.cfg
// or conda-meta in its directory or the parent. Other installations have the version in the name of
// their directory or executable.
func versionAt(path string) discovery.Version {
	bin := filepath.Dir(path)
	for _, root := range []string{bin, filepath.Dir(bin)} {
		if v := configVersion(filepath.Join(root, "pyvenv.cfg")); v != nil {
			return v
		}
		if v := condaVersion(filepath.Join(root, "conda-meta")); v != nil {
			return v
		}
	}
	real, err := paths.Real(path)
	if err != nil {
		return nil
	}
	root := filepath.Dir(filepath.Dir(real))
	inVersions := strings.EqualFold(filepath.Base(filepath.Dir(root)), "versions") // pyenv, and frameworks on macOS
	if name := filepath.Base(root); inVersions || strings.HasPrefix(name, "cpython-") {
		if v := parseInstallName(name); v != nil {
			return v
		}
	}
	name := strings.TrimSuffix(filepath.Base(real), discovery.ExeSuffix)
	if v := discovery.ParseVersion(strings.TrimPrefix(name, "python")); len(v) > 1 || len(v) == 1 && v[0] < minMajor {
		return v
	}
	return dllVersion(filepath.Dir(real))
}

// configVersion reads pyvenv.cfg: venv writes "version = 3.12.1", virtualenv and
// uv "version_info = 3.12.1.final.0" or less.
func configVersion(path string) discovery.Version {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if key = strings.TrimSpace(key); key != "version" && key != "version_info" {
			continue
		}
		words := strings.Split(strings.TrimSpace(value), ".")
		if v := discovery.ParseVersion(strings.Join(words[:min(len(words), 3)], ".")); v != nil {
			return v
		}
	}
	return nil
}

// condaVersion reads the name of the record of conda's python package:
// python-3.12.1-hab00c5b_1_cpython.json.
func condaVersion(dir string) discovery.Version {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), "python-"); ok {
			text, _, _ := strings.Cut(rest, "-")
			if v := discovery.ParseVersion(text); v != nil {
				return v
			}
		}
	}
	return nil
}

// versionProblem returns why a version cannot be used, or "" if it can or is unknown.
func versionProblem(v discovery.Version) string {
	switch {
	case v == nil:
		return ""
	case v[0] < minMajor:
		return "is Python " + v.String()
	case len(v) > 1 && v[0] == minMajor && v[1] < minMinor:
		return fmt.Sprintf("is Python %s, older than %d.%d", v, minMajor, minMinor)
	}
	return ""
}
