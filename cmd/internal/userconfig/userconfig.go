// Package kept is the user's file about sandboxes: the defaults of the flags, and what was
// allowed always in a workspace. The file is the user's own and lies outside of every
// workspace.
//
// It has no goroutines.
package userconfig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/internal/securefile"
	"github.com/turnstone-repl/turnstone/session"
)

// maxFileBytes bounds the file.
const maxFileBytes = 1 << 20

// A SandboxFile is the file, by its path. Its methods read it each time, so they may be used by any
// goroutine and any number of programs.
type SandboxFile string

// DefaultSandboxFile is the file of the user, sandbox.toml in the directory turnstone of
// XDG_CONFIG_HOME, or else of .config in the home directory.
func DefaultSandboxFile(getenv func(string) string) SandboxFile {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return SandboxFile(filepath.Join(dir, "turnstone", "sandbox.toml"))
}

// Settings are what the file says.
type Settings struct {
	// Defaults of the flags with these names.
	Sandbox   string   `toml:"sandbox"`
	Writable  []string `toml:"writable"`
	Readable  []string `toml:"readable"`
	Home      string   `toml:"home"`
	AllowHost []string `toml:"allow-host"`
	Network   string   `toml:"network"`
	Ask       string   `toml:"ask"`
	Accept    string   `toml:"sandbox-accept"`

	AcceptPaths []string `toml:"accept"`

	// Workspace has what is allowed in each workspace, by its real path.
	Workspace map[string]WorkspaceGrants `toml:"workspace"`
}

// A WorkspaceGrants is what is allowed in one.
type WorkspaceGrants struct {
	Writable  []string `toml:"writable"`
	Accept    []string `toml:"accept"` // those of Writable that programs outside run or read, once more
	Readable  []string `toml:"readable"`
	AllowHost []string `toml:"allow-host"`
	AllowCall []string `toml:"allow-call"`
}

// Read reads the file. One that is not there says nothing. An error names the line.
func (f SandboxFile) Read() (Settings, error) {
	var s Settings
	text, err := readPrivateFile(string(f))
	if text == nil || err != nil {
		return s, err
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Settings{}, fmt.Errorf("%s, %s", f, errorPosition(err))
	}
	paths := slices.Concat(s.Writable, s.AcceptPaths, s.Readable)
	for path, w := range s.Workspace {
		paths = slices.Concat(paths, []string{path}, w.Writable, w.Accept, w.Readable)
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			return Settings{}, fmt.Errorf("%s, line %d: %q is not an absolute path", f, findLine(text, path), path)
		}
	}
	return s, nil
}

// errorPosition says where the file is wrong, and how.
func errorPosition(err error) string {
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		row, _ := missing.Errors[0].Position()
		return fmt.Sprintf("line %d: there is no setting %q", row, strings.Join(missing.Errors[0].Key(), "."))
	}
	if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, _ := wrong.Position()
		return fmt.Sprintf("line %d: %s", row, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return strings.TrimPrefix(err.Error(), "toml: ")
}

// findLine returns the first line that has a text, from 1; 0 if it is not there as it is.
func findLine(text []byte, what string) int {
	before, _, found := bytes.Cut(text, []byte(what))
	if !found {
		return 0
	}
	return 1 + bytes.Count(before, []byte("\n"))
}

// List implements supervisor.GrantStore.
func (f SandboxFile) List(workspace string) (all []session.Grant, err error) {
	s, err := f.Read()
	if err != nil {
		return nil, err
	}
	w := s.Workspace[workspace]
	for _, dir := range w.Writable {
		g := session.Grant{Write: dir, Always: true}
		if slices.Contains(w.Accept, dir) {
			g.Accept = dir
		}
		all = append(all, g)
	}
	for _, path := range w.Readable {
		all = append(all, session.Grant{Read: path, Always: true})
	}
	for _, host := range w.AllowHost {
		all = append(all, session.Grant{Host: host, Always: true})
	}
	for _, call := range w.AllowCall {
		all = append(all, session.Grant{Call: call, Always: true})
	}
	return all, nil
}

// Add implements supervisor.GrantStore. It leaves the rest of the file as it is.
func (f SandboxFile) Add(workspace string, g session.Grant) error {
	if f == "" {
		return errors.New("there is no home directory to keep it in")
	}
	if _, err := f.Read(); err != nil { // never edit what is not understood
		return err
	}
	if err := securefile.MakeDir(filepath.Dir(string(f))); err != nil {
		return err
	}
	if g.Accept != "" {
		if err := f.addToList(workspace, "accept", g.Accept); err != nil {
			return err
		}
	}
	key, value := "writable", g.Write
	if g.Read != "" {
		key, value = "readable", g.Read
	}
	if g.Host != "" {
		key, value = "allow-host", g.Host
	}
	if g.Call != "" {
		key, value = "allow-call", g.Call
	}
	return f.addToList(workspace, key, value)
}

// addToList adds to a list of a workspace.
func (f SandboxFile) addToList(workspace, key, value string) error {
	return install.EditList(string(f), []string{"workspace", workspace}, key, func(list []string) []string {
		if slices.Contains(list, value) {
			return list
		}
		return append(list, value)
	})
}
