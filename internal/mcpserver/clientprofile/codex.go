package clientprofile

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
)

// CodexCapability is a capability of Codex. A server that declares it receives, with each
// call, the sandbox that the user chose and the user's directory.
const CodexCapability = "codex/sandbox-state-meta"

// A CodexState is the user's choice of sandbox, as Codex reports it with a call.
type CodexState struct {
	Cwd     string           `json:"sandboxCwd"`
	Profile *json.RawMessage `json:"permissionProfile"`
	Policy  *codexPolicy     `json:"sandboxPolicy"` // from older versions, which have no profile
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

// CodexStateOf decodes the state that came with a call, or returns nil. A state that cannot be
// decoded allows nothing.
func CodexStateOf(meta map[string]any) *CodexState {
	value, ok := meta[CodexCapability]
	if !ok {
		return nil
	}
	var s CodexState
	if text, err := json.Marshal(value); err == nil {
		_ = json.Unmarshal(text, &s) // other fields stay empty
	}
	return &s
}

// WorkingDir returns the user's directory, or "".
func (s *CodexState) WorkingDir() string {
	if s == nil {
		return ""
	}
	return DirectoryFromURI(s.Cwd)
}

// DirectoryFromURI returns the directory in a file URL or an absolute path, or "" if there is
// none.
func DirectoryFromURI(address string) string {
	var paths []string
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" && (u.Host == "" || strings.EqualFold(u.Host, "localhost")) {
		paths = append(paths, u.Path)
	}
	paths = append(paths, strings.TrimPrefix(address, "file://")) // some clients send an unescaped URL, or a path
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

// allowedSandbox returns the sandbox of Codex's own commands, for a session that works in dir.
// unenforced describes the rules that no session can enforce. A nil sandbox means that Codex sets
// none.
func (s *CodexState) allowedSandbox(dir string) (theirs *sandbox.Policy, unenforced []string) {
	switch {
	case s == nil || s.Profile == nil && s.Policy == nil:
		return nil, nil
	case s.Profile == nil:
		return s.Policy.allowedSandbox(s.WorkingDir(), dir)
	}
	var p codexProfile
	if json.Unmarshal(*s.Profile, &p) != nil {
		p = codexProfile{}
	}
	theirs = &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone}
	if p.Network == "enabled" {
		theirs.Network = sandbox.NetworkFull
	}
	switch {
	case p.Type == "disabled":
		return &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkFull}, nil
	case p.Type == "external", p.Type == "managed" && p.Files.Type == "unrestricted":
		theirs.Level = sandbox.Full
		return theirs, nil
	case p.Type != "managed" || p.Files.Type != "restricted":
		return theirs, []string{"its sandbox has an unknown type, so this one is read-only"}
	}
	unenforced = p.addFileRules(theirs, s.WorkingDir())
	theirs.Writable = realDirs(theirs.Writable, dir)
	return theirs, unenforced
}

// addFileRules adds the file entries of a profile to a sandbox. It describes the entries that no
// session can enforce.
func (p *codexProfile) addFileRules(theirs *sandbox.Policy, cwd string) (unenforced []string) {
	reads := false
	var readOnly []string
	for _, e := range p.Files.Entries {
		path, ok := e.resolvePath(cwd)
		denies := e.Access != "read" && e.Access != "write" // or is a value of a later version
		switch {
		case ok && e.Access == "write":
			theirs.Writable = append(theirs.Writable, path)
		case ok && denies:
			theirs.Hidden = append(theirs.Hidden, path)
		case ok && path == "/":
			reads = true
		case ok:
			readOnly = append(readOnly, path)
		case e.Path.Pattern != "" && e.Access != "write":
			unenforced = append(unenforced, fmt.Sprintf("it restricts files by the pattern %s", e.Path.Pattern))
		}
	}
	for _, path := range readOnly {
		ours := slices.Contains(theirs.Writable, filepath.Dir(path)) && slices.Contains(sandbox.ProtectedNames(), filepath.Base(path))
		// In a repository, the sandbox protects only the files that other programs execute, so that
		// commits work.
		if isInOne(path, theirs.Writable) && !ours && filepath.Base(path) != ".git" {
			theirs.Protected = append(theirs.Protected, path)
		}
	}
	if !reads && !slices.Contains(theirs.Writable, "/") {
		unenforced = append(unenforced, "it restricts reading to some directories; a session can read everything except secrets")
	}
	return unenforced
}

// resolvePath returns the path of an entry. ok is false for patterns, and for special paths that
// a session replaces with its own.
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

// allowedSandbox returns the sandbox that a policy of an older version allows.
func (p *codexPolicy) allowedSandbox(cwd, dir string) (theirs *sandbox.Policy, unenforced []string) {
	theirs = &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone}
	if p.Network {
		theirs.Network = sandbox.NetworkFull
	}
	switch p.Type {
	case "danger-full-access":
		return &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkFull}, nil
	case "external-sandbox":
		theirs.Level = sandbox.Full
	case "workspace-write":
		theirs.Writable = realDirs(append([]string{cwd, "/tmp", os.TempDir()}, p.Writable...), dir)
	case "read-only":
	default:
		unenforced = []string{"its sandbox has an unknown type, so this one is read-only"}
	}
	return theirs, unenforced
}

// realDirs returns the existing directories among dirs, with links resolved. Each session has its
// own directories for temporary files, so those of the system count only if the session works
// there.
func realDirs(dirs []string, work string) (found []string) {
	for _, dir := range dirs {
		at, err := paths.Real(dir)
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

// isInOne reports whether path is one of dirs or below one.
func isInOne(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return paths.Contains(dir, path) })
}
