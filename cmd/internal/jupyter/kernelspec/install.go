package kernelspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
)

// A SpecFile is the content of a kernel.json that this program writes.
type SpecFile struct {
	Argv      []string          `json:"argv"` // with {connection_file} in it
	Display   string            `json:"display_name"`
	Language  string            `json:"language"`
	Interrupt string            `json:"interrupt_mode"`
	Env       map[string]string `json:"env,omitempty"`
	Metadata  Metadata          `json:"metadata"`
}

// Metadata marks a kernelspec as written by this program. Only such kernelspecs are replaced or removed.
type Metadata struct {
	Turnstone *OwnerMark `json:"turnstone,omitempty"`
	Debugger  bool       `json:"debugger"`
}

// An OwnerMark names the session for which this program wrote a kernelspec.
type OwnerMark struct {
	Session string `json:"session,omitempty"` // an existing session; "" for a new one per notebook
}

// UserDir returns the directory of the user's own kernelspecs.
func UserDir(getenv func(string) string) (string, error) {
	data := getenv("JUPYTER_DATA_DIR")
	if data == "" {
		data = userDataDir(getenv)
	}
	if data == "" {
		return "", errors.New("no home directory for the user's kernelspecs; use --prefix")
	}
	return filepath.Join(data, "kernels"), nil
}

// PrefixDir returns the directory of the kernelspecs of an installation, such as /usr/local or a virtual
// environment.
func PrefixDir(prefix string) string { return filepath.Join(prefix, "share", "jupyter", "kernels") }

// IsKernelName reports whether Jupyter accepts this as the name of a kernel.
func IsKernelName(name string) bool { return kernelName().MatchString(name) }

// ReadOwnerMark returns the mark of a kernelspec in a directory, if this program wrote it.
func ReadOwnerMark(dir string) (OwnerMark, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	var f SpecFile
	if err != nil || len(text) > maxFileBytes || json.Unmarshal(text, &f) != nil || f.Metadata.Turnstone == nil {
		return OwnerMark{}, false
	}
	return *f.Metadata.Turnstone, true
}

// Write writes a kernelspec to a directory below kernels and returns its path. It replaces only
// kernelspecs that this program has written, and returns an error for any other.
func Write(kernels, name string, f SpecFile) (string, error) {
	dir := filepath.Join(kernels, name)
	if _, err := os.Stat(dir); err == nil {
		if _, ours := ReadOwnerMark(dir); !ours {
			return "", fmt.Errorf("%s already exists and was not written by repl; use another --name, or remove it yourself", dir)
		}
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kernel.json")
	return path, atomicfile.Write(path, append(text, '\n'), 0o644)
}

// Remove removes a kernelspec that this program has written. It returns an error for any other kernelspec.
func Remove(dir string) error {
	if _, ours := ReadOwnerMark(dir); !ours {
		return fmt.Errorf("%s was not written by repl; remove it with jupyter kernelspec remove %s", dir, strings.ToLower(filepath.Base(dir)))
	}
	return os.RemoveAll(dir)
}
