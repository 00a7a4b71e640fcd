package mcpserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// codexSandboxCapability is a capability of Codex. A server that declares it gets, with each call, the
// sandbox that the user chose and the user's directory.
const codexSandboxCapability = "codex/sandbox-state-meta"

// A codexState is what Codex says of a user's choice.
type codexState struct {
	Cwd     string           `json:"sandboxCwd"`
	Profile *json.RawMessage `json:"permissionProfile"`
	Policy  *codexPolicy     `json:"sandboxPolicy"` // of older versions, which have no profile
}

type codexProfile struct {
	Type  string `json:"type"` // managed, disabled, external
	Files struct {
		Type    string       `json:"type"` // restricted, unrestricted
		Entries []codexEntry `json:"entries"`
	} `json:"file_system"`
	Network string `json:"network"` // restricted, enabled
}

type codexEntry struct {
	Path struct {
		Type    string `json:"type"` // path, special, glob_pattern
		Path    string `json:"path"`
		Pattern string `json:"pattern"`
		Value   struct {
			Kind    string `json:"kind"` // root, project_roots, tmpdir, slash_tmp, minimal, …
			Subpath string `json:"subpath"`
		} `json:"value"`
	} `json:"path"`
	Access string `json:"access"` // read, write, deny
}

type codexPolicy struct {
	Type     string   `json:"type"` // read-only, workspace-write, danger-full-access
	Writable []string `json:"writable_roots"`
	Network  bool     `json:"network_access"`
}

// codexStateOf reads the state that came with a call; nil if none did. A state that is not
// understood allows nothing.
func codexStateOf(meta map[string]any) *codexState {
	value, said := meta[codexSandboxCapability]
	if !said {
		return nil
	}
	var s codexState
	if text, err := json.Marshal(value); err == nil {
		_ = json.Unmarshal(text, &s) // fields that fit are filled in, and the others stay away
	}
	return &s
}

// workingDir returns the user's directory; "" if it is none.
func (s *codexState) workingDir() string {
	if s == nil {
		return ""
	}
	return directoryFromURI(s.Cwd)
}

// directoryFromURI returns the directory that a file URL names, or that an absolute path is; "" if it is none.
func directoryFromURI(address string) string {
	var paths []string
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" && (u.Host == "" || strings.EqualFold(u.Host, "localhost")) {
		paths = append(paths, u.Path)
	}
	paths = append(paths, strings.TrimPrefix(address, "file://")) // some clients escape nothing, or send a path
	for _, path := range paths {
		dir := filepath.Clean(filepath.FromSlash(path))
		if filepath.VolumeName(dir[1:]) != "" { // file:///C:/x has one slash before it
			dir = dir[1:]
		}
		if i, err := os.Stat(dir); filepath.IsAbs(dir) && err == nil && i.IsDir() {
			return dir
		}
	}
	return ""
}

// allowedSandbox returns what Codex lets its own commands do, for a session that works in dir, and what
// of it no session of ours can hold, in words. nil means that Codex says nothing about it.
func (s *codexState) allowedSandbox(dir string) (theirs *workers.Sandbox, unheld []string) {
	switch {
	case s == nil || s.Profile == nil && s.Policy == nil:
		return nil, nil
	case s.Profile == nil:
		return s.Policy.allowedSandbox(s.workingDir(), dir)
	}
	var p codexProfile
	if json.Unmarshal(*s.Profile, &p) != nil {
		p = codexProfile{}
	}
	theirs = &workers.Sandbox{Level: workers.ReadOnly, Network: workers.NetworkNone}
	if p.Network == "enabled" {
		theirs.Network = workers.NetworkFull
	}
	switch {
	case p.Type == "disabled":
		return &workers.Sandbox{Level: workers.Full, Network: workers.NetworkFull}, nil
	case p.Type == "external", p.Type == "managed" && p.Files.Type == "unrestricted":
		theirs.Level = workers.Full
		return theirs, nil
	case p.Type != "managed" || p.Files.Type != "restricted":
		return theirs, []string{"its sandbox is of a kind that is not known here, so this one is read-only"}
	}
	unheld = p.addFileRules(theirs, s.workingDir())
	theirs.Writable = realDirs(theirs.Writable, dir)
	return theirs, unheld
}

// addFileRules adds what the entries of a profile say of files to a sandbox, and returns what it cannot.
func (p *codexProfile) addFileRules(theirs *workers.Sandbox, cwd string) (unheld []string) {
	reads := false
	var kept []string
	for _, e := range p.Files.Entries {
		path, ok := e.resolvePath(cwd)
		denies := e.Access != "read" && e.Access != "write" // or says what only a later version knows
		switch {
		case ok && e.Access == "write":
			theirs.Writable = append(theirs.Writable, path)
		case ok && denies:
			theirs.Hidden = append(theirs.Hidden, path)
		case ok && path == "/":
			reads = true
		case ok:
			kept = append(kept, path)
		case e.Path.Pattern != "" && e.Access != "write":
			unheld = append(unheld, fmt.Sprintf("it bounds files by the pattern %s, which a session does not", e.Path.Pattern))
		}
	}
	for _, path := range kept {
		ours := slices.Contains(theirs.Writable, filepath.Dir(path)) && slices.Contains(workers.ProtectedNames(), filepath.Base(path))
		// Of a repository ours keeps what programs outside run, so that commits work.
		if isInOne(path, theirs.Writable) && !ours && filepath.Base(path) != ".git" {
			theirs.Protected = append(theirs.Protected, path)
		}
	}
	if !reads && !slices.Contains(theirs.Writable, "/") {
		unheld = append(unheld, "it lets commands read some places only, and a session reads all but secrets")
	}
	return unheld
}

// resolvePath returns the path of an entry. ok is false if it stands for none: sessions have a /tmp of
// their own, and patterns are no paths.
func (e codexEntry) resolvePath(cwd string) (path string, ok bool) {
	switch {
	case e.Path.Type == "path" && filepath.IsAbs(e.Path.Path):
		return filepath.Clean(e.Path.Path), true
	case e.Path.Type != "special":
		return "", false
	}
	switch e.Path.Value.Kind {
	case "root":
		return "/", true
	case "project_roots", "current_working_directory":
		return filepath.Join(cwd, e.Path.Value.Subpath), cwd != ""
	case "slash_tmp":
		return "/tmp", true
	case "tmpdir":
		return os.TempDir(), true
	}
	return "", false
}

// allowedSandbox returns what a policy of an older version allows.
func (p *codexPolicy) allowedSandbox(cwd, dir string) (theirs *workers.Sandbox, unheld []string) {
	theirs = &workers.Sandbox{Level: workers.ReadOnly, Network: workers.NetworkNone}
	if p.Network {
		theirs.Network = workers.NetworkFull
	}
	switch p.Type {
	case "danger-full-access":
		return &workers.Sandbox{Level: workers.Full, Network: workers.NetworkFull}, nil
	case "external-sandbox":
		theirs.Level = workers.Full
	case "workspace-write":
		theirs.Writable = realDirs(append([]string{cwd, "/tmp", os.TempDir()}, p.Writable...), dir)
	case "read-only":
	default:
		unheld = []string{"its sandbox is of a kind that is not known here, so this one is read-only"}
	}
	return theirs, unheld
}

// realDirs returns the directories among dirs, without links. Those for temporary files stand
// for nothing but a session that works there: each has its own.
func realDirs(dirs []string, work string) (found []string) {
	for _, dir := range dirs {
		at, err := filepath.EvalSymlinks(dir)
		if i, e := os.Stat(at); err != nil || e != nil || !i.IsDir() || slices.Contains(found, at) {
			continue
		}
		if (dir == "/tmp" || dir == os.TempDir()) && !isInOne(work, []string{at}) {
			continue
		}
		found = append(found, at)
	}
	return found
}

// isInOne reports whether path is one of dirs or below it.
func isInOne(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
	})
}

// newRealDir returns a directory without links, or as it is.
func realDir(dir string) string {
	if at, err := filepath.EvalSymlinks(dir); err == nil {
		return at
	}
	return dir
}
