// Package userconfig reads and edits the user's configuration files: remotes, custom workers and
// sandboxes. The sandbox file has the defaults of the flags, and the grants saved for each
// workspace. It belongs to the user and lies outside every workspace.
//
// The package starts no goroutines.
//
// # One sandbox file
//
// All saved grants are in one file that people can read and edit, and that no sandboxed session can
// see. A file that cannot be parsed, or that others can read, is an error that names the line. No
// session then starts, because a missing right would be noticed only later.
//
// A file in the workspace was rejected. It would travel with the project, but the session can write
// there, and so can anyone who sends a pull request. A file in the state directory was rejected:
// nobody looks there, and a grant must be easy to see and to revoke. One file for each workspace
// was rejected. Two writers would never conflict, but nobody would see all grants.
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
	"github.com/turnstone-repl/turnstone/internal/userdirs"
	"github.com/turnstone-repl/turnstone/session"
)

// maxFileBytes bounds the size of a configuration file.
const maxFileBytes = 1 << 20

// A SandboxFile is the path of the sandbox file. Its methods read the file each time, so any
// goroutine and any number of programs may use them.
type SandboxFile string

// DefaultSandboxFile returns the user's file: turnstone/sandbox.toml in XDG_CONFIG_HOME, or else in
// .config of the home directory.
func DefaultSandboxFile(getenv func(string) string) SandboxFile {
	home, _ := os.UserHomeDir()
	dir := userdirs.Config(getenv, home)
	if dir == "" {
		return ""
	}
	return SandboxFile(filepath.Join(dir, "turnstone", "sandbox.toml"))
}

// Settings holds the parsed content of a sandbox file.
type Settings struct {
	// Defaults of the flags with these names.
	Sandbox   string   `toml:"sandbox"`
	Writable  []string `toml:"allow-write"`
	Readable  []string `toml:"allow-read"`
	Home      string   `toml:"home-access"`
	AllowHost []string `toml:"allow-host"`
	Network   string   `toml:"network"`
	Ask       string   `toml:"ask-permission"`
	Accept    string   `toml:"sandbox-fallback"`

	AcceptPaths []string `toml:"confirm-write"`

	// Workspace maps the real path of a workspace to its saved grants.
	Workspace map[string]WorkspaceGrants `toml:"workspace"`
}

// A WorkspaceGrants holds the saved grants of a workspace.
type WorkspaceGrants struct {
	Writable  []string `toml:"allow-write"`
	Accept    []string `toml:"confirm-write"` // paths of Writable that programs outside the sandbox run or read, listed again
	Readable  []string `toml:"allow-read"`
	AllowHost []string `toml:"allow-host"`
	AllowCall []string `toml:"allow-tool"`
}

// Read reads the file. A missing file has no settings. An error names the line.
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

// errorPosition describes the position and the cause of a parse error.
func errorPosition(err error) string {
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		row, _ := missing.Errors[0].Position()
		return fmt.Sprintf("line %d: unknown setting %q", row, strings.Join(missing.Errors[0].Key(), "."))
	}
	if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, _ := wrong.Position()
		return fmt.Sprintf("line %d: %s", row, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return strings.TrimPrefix(err.Error(), "toml: ")
}

// findLine returns the first line that contains a text, from 1, or 0.
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

// Add implements supervisor.GrantStore. It does not change the rest of the file.
func (f SandboxFile) Add(workspace string, g session.Grant) error {
	if f == "" {
		return errors.New("no home directory to store it in")
	}
	if _, err := f.Read(); err != nil { // never edit a file that cannot be parsed
		return err
	}
	if err := securefile.MakeDir(filepath.Dir(string(f))); err != nil {
		return err
	}
	if g.Accept != "" {
		if err := f.addToList(workspace, "confirm-write", g.Accept); err != nil {
			return err
		}
	}
	key, value := "allow-write", g.Write
	if g.Read != "" {
		key, value = "allow-read", g.Read
	}
	if g.Host != "" {
		key, value = "allow-host", g.Host
	}
	if g.Call != "" {
		key, value = "allow-tool", g.Call
	}
	return f.addToList(workspace, key, value)
}

// addToList adds a value to a list of a workspace.
func (f SandboxFile) addToList(workspace, key, value string) error {
	return install.EditList(string(f), []string{"workspace", workspace}, key, func(list []string) []string {
		if slices.Contains(list, value) {
			return list
		}
		return append(list, value)
	})
}
