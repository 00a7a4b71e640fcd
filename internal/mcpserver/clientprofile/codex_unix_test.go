//go:build unix

package clientprofile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
)

// newCodexMeta returns the state that Codex sends for a user in dir, which replaces each DIR.
func newCodexMeta(t *testing.T, dir, state string) map[string]any {
	t.Helper()
	var meta map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(`{"codex/sandbox-state-meta": `+state+`}`, "DIR", dir)), &meta); err != nil {
		t.Fatal(err)
	}
	return meta
}

// Codex 0.169.0 sent these states for sandbox_mode workspace-write and read-only.
const (
	codexWorkspace = `{"permissionProfile": {"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": [
		{"access": "read", "path": {"type": "special", "value": {"kind": "root"}}},
		{"access": "write", "path": {"path": "DIR", "type": "path"}},
		{"access": "write", "path": {"type": "special", "value": {"kind": "slash_tmp"}}},
		{"access": "write", "path": {"type": "special", "value": {"kind": "tmpdir"}}},
		{"access": "read", "missing_path_behavior": "skip", "path": {"path": "DIR/.git", "type": "path"}},
		{"access": "read", "missing_path_behavior": "skip", "path": {"path": "DIR/.agents", "type": "path"}},
		{"access": "read", "missing_path_behavior": "skip", "path": {"path": "DIR/.codex", "type": "path"}},
		{"access": "read", "missing_path_behavior": "skip", "path": {"path": "DIR/.aws", "type": "path"}}]}},
		"sandboxCwd": "file://DIR", "useLegacyLandlock": false, "useMxc": false}`
	codexReadOnly = `{"permissionProfile": {"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": [
		{"access": "read", "path": {"type": "special", "value": {"kind": "root"}}}]}}, "sandboxCwd": "file://DIR"}`
	codexFull = `{"permissionProfile": {"type": "disabled"}, "sandboxCwd": "file://DIR"}`
)

func TestCodexState(t *testing.T) {
	t.Parallel()
	dir := paths.RealOrSame(t.TempDir())
	more := filepath.Join(dir, "more")
	if err := os.Mkdir(more, 0o755); err != nil {
		t.Fatal(err)
	}
	reads := sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone}
	writes := func(change func(*sandbox.Policy)) sandbox.Policy {
		s := reads
		s.Writable = []string{dir}
		if change != nil {
			change(&s)
		}
		return s
	}
	managed := func(network, entries string) string {
		return `{"permissionProfile": {"type": "managed", "network": "` + network + `", "file_system": {"type": "restricted", "entries": [` + entries + `]}}, "sandboxCwd": "file://DIR"}`
	}
	const root = `{"access": "read", "path": {"type": "special", "value": {"kind": "root"}}}`
	const project = `{"access": "write", "path": {"type": "special", "value": {"kind": "project_roots"}}}`
	for name, row := range map[string]struct {
		state      string
		want       *sandbox.Policy
		unenforced string
	}{
		"workspace":       {codexWorkspace, new(writes(nil)), ""},
		"read-only":       {codexReadOnly, &reads, ""},
		"full":            {codexFull, &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkFull}, ""},
		"directory alone": {`{"sandboxCwd": "file://DIR"}`, nil, ""},
		"network":         {managed("enabled", root+","+project), new(writes(func(s *sandbox.Policy) { s.Network = sandbox.NetworkFull })), ""},
		"its own files": {managed("restricted", root+","+project+`, {"access": "read", "path": {"type": "path", "path": "DIR/lock"}}, {"access": "deny", "path": {"type": "path", "path": "DIR/key"}}, {"access": "none", "path": {"type": "special", "value": {"kind": "project_roots", "subpath": "old"}}}`),
			new(writes(func(s *sandbox.Policy) {
				s.Protected, s.Hidden = []string{dir + "/lock"}, []string{dir + "/key", dir + "/old"}
			})), ""},
		"a pattern":          {managed("restricted", root+","+project+`, {"access": "deny", "path": {"type": "glob_pattern", "pattern": "**/*.env"}}`), new(writes(nil)), "pattern **/*.env"},
		"some reads":         {managed("restricted", project), new(writes(nil)), "reading to some directories"},
		"everything written": {managed("restricted", `{"access": "write", "path": {"type": "special", "value": {"kind": "root"}}}`), new(writes(func(s *sandbox.Policy) { s.Writable = []string{"/"} })), ""},
		"confined elsewhere": {`{"permissionProfile": {"type": "external", "network": "restricted"}}`, &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkNone}, ""},
		"unrestricted files": {`{"permissionProfile": {"type": "managed", "network": "enabled", "file_system": {"type": "unrestricted"}}}`, &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkFull}, ""},
		"a later kind":       {`{"permissionProfile": {"type": "cloud"}}`, &reads, "unknown type"},
		"a later shape":      {`{"permissionProfile": "workspace-write"}`, &reads, "unknown type"},
		"older workspace":    {`{"sandboxPolicy": {"type": "workspace-write", "writable_roots": ["DIR/more"], "network_access": true}, "sandboxCwd": "file://DIR"}`, new(writes(func(s *sandbox.Policy) { s.Writable, s.Network = []string{dir, more}, sandbox.NetworkFull })), ""},
		"older read-only":    {`{"sandboxPolicy": {"type": "read-only"}}`, &reads, ""},
		"older full":         {`{"sandboxPolicy": {"type": "danger-full-access"}}`, &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkFull}, ""},
	} {
		got, unenforced := CodexStateOf(newCodexMeta(t, dir, row.state)).allowedSandbox("/elsewhere")
		if !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, row.want)
		}
		if rules := strings.Join(unenforced, "; "); (row.unenforced == "") != (rules == "") || !strings.Contains(rules, row.unenforced) {
			t.Errorf("%s: unenforced rules %q, want %q", name, rules, row.unenforced)
		}
	}
	if got, _ := CodexStateOf(nil).allowedSandbox(dir); got != nil {
		t.Errorf("a client without a policy: got %+v", got)
	}
}
