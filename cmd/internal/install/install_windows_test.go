package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
)

var windowsServer = ServerSpec{Name: "turnstone", Command: `C:\Program Files\Ada & Co\repl.exe`, Args: []string{"mcp", "--dir", `D:\größer`}}

func TestConfigDirsWindows(t *testing.T) {
	// The paths are those that each client documents, below the user's profile.
	t.Run("finds the files below the user profile", func(t *testing.T) {
		for variable, dir := range map[string]string{"USERPROFILE": `C:\Users\Ada`, "AppData": `C:\Users\Ada\AppData\Roaming`, "LOCALAPPDATA": `C:\Users\Ada\AppData\Local`} {
			t.Setenv(variable, dir)
		}
		for _, variable := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"} {
			t.Setenv(variable, "")
		}
		p, err := FindConfigDirs()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"claude":         `C:\Users\Ada\.claude.json`,
			"codex":          `C:\Users\Ada\.codex\config.toml`,
			"gemini":         `C:\Users\Ada\.gemini\settings.json`,
			"qwen":           `C:\Users\Ada\.qwen\settings.json`,
			"copilot":        `C:\Users\Ada\.copilot\mcp-config.json`,
			"cline":          `C:\Users\Ada\.cline\data\settings\cline_mcp_settings.json`,
			"continue":       `C:\Users\Ada\.continue\mcpServers\turnstone.json`,
			"cursor":         `C:\Users\Ada\.cursor\mcp.json`,
			"vscode":         `C:\Users\Ada\AppData\Roaming\Code\User\mcp.json`,
			"zed":            `C:\Users\Ada\AppData\Roaming\Zed\settings.json`,
			"windsurf":       `C:\Users\Ada\.codeium\windsurf\mcp_config.json`,
			"opencode":       `C:\Users\Ada\.config\opencode\opencode.json`,
			"claude-desktop": `C:\Users\Ada\AppData\Roaming\Claude\claude_desktop_config.json`,
		} {
			if got := findClient(t, name).file(p); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	})

	t.Run("finds the directory of the Claude Desktop package", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "claude-desktop")
		local := filepath.Join(p.Home, "Local")
		p.Getenv = func(name string) string { return map[string]string{"LOCALAPPDATA": local}[name] }
		old := filepath.Join(p.Config, `Claude\claude_desktop_config.json`)
		if got := c.file(p); got != old {
			t.Errorf("without a package: got %s, want %s", got, old)
		}
		packages := filepath.Join(local, "Packages")
		if err := os.MkdirAll(filepath.Join(packages, "Claude_a"), 0o755); err != nil {
			t.Fatal(err)
		}
		const below = `LocalCache\Roaming\Claude\claude_desktop_config.json`
		if got, want := c.file(p), filepath.Join(packages, "Claude_a", below); got != want {
			t.Errorf("never started: got %s, want %s", got, want)
		}
		used := filepath.Join(packages, "Claude_b", below)
		if err := os.MkdirAll(filepath.Dir(used), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := c.file(p); got != used {
			t.Errorf("two packages: got %s, want the used one, %s", got, used)
		}
	})
}

func TestInstallWindows(t *testing.T) {
	t.Run("escapes Windows paths", func(t *testing.T) {
		const escaped = `"C:\\Program Files\\Ada & Co\\repl.exe"` // in JSON and in TOML
		for _, c := range Clients() {
			p := newTestHome(t)
			r := wantOutcome(t, Added, c.Install, p, windowsServer)
			if got := readTestFile(t, r.File); !strings.Contains(got, escaped) {
				t.Errorf("%s: got\n%s\nwant %s in it", c.Name, got, escaped)
			}
			wantOutcome(t, Unchanged, c.Install, p, windowsServer)
			_, entries, err := c.FindEntries(p, false)
			if err != nil || len(entries) != 1 || entries[0].Command != windowsServer.Command || entries[0].Args[2] != windowsServer.Args[2] {
				t.Errorf("%s: read back as %+v, %v", c.Name, entries, err)
			}
			wantOutcome(t, Removed, c.Uninstall, p, windowsServer)
		}
	})

	// Batch files receive their arguments through cmd.exe.
	t.Run("rejects words that a batch file would change", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "claude")
		installFakeClient(t, p, "claude", fakeClient{File: c.file(p), Calls: filepath.Join(p.Home, "calls")})
		plain := windowsServer
		plain.Command = `C:\Program Files\Ada\repl.exe`
		if r := wantOutcome(t, Added, c.Install, p, plain); len(r.Commands) != 1 {
			t.Errorf("claude was not called: %+v", r)
		}
		_, entries, err := c.FindEntries(p, false)
		if err != nil || len(entries) != 1 || entries[0].Command != plain.Command || entries[0].Args[2] != plain.Args[2] {
			t.Errorf("claude received %+v (%v)", entries, err)
		}
		for i, special := range []string{`C:\a & b\repl.exe`, `C:\100%\repl.exe`, `C:\Program Files (x86)\repl.exe`} {
			s := windowsServer
			s.Name, s.Command = fmt.Sprintf("odd%d", i), special
			if r := wantOutcome(t, Added, c.Install, p, s); len(r.Commands) != 0 || !strings.Contains(r.Note, "batch file") {
				t.Errorf("%s: got %q, note %q, want its file to be edited", special, r.Commands, r.Note)
			}
		}
	})

	t.Run("keeps the access rights of the file", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		file := c.file(p)
		writeTestFile(t, file, "{}", 0o600)
		user, err := windows.GetCurrentProcessToken().GetTokenUser()
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range []string{"D:P(A;;FA;;;" + user.User.Sid.String() + ")", "D:P(A;;FA;;;" + user.User.Sid.String() + ")(A;;FR;;;WD)"} {
			d, err := windows.SecurityDescriptorFromString(list)
			if err != nil {
				t.Fatal(err)
			}
			name, err := windows.UTF16PtrFromString(file)
			if err != nil {
				t.Fatal(err)
			}
			h, err := windows.CreateFile(name, windows.WRITE_DAC, 0, nil, windows.OPEN_EXISTING, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			err = windows.SetKernelObjectSecurity(h, windows.DACL_SECURITY_INFORMATION, d)
			if e := windows.CloseHandle(h); err != nil || e != nil {
				t.Fatal(err, e)
			}
			before := fileRights(t, file)
			for _, change := range []func(context.Context, ConfigDirs, ServerSpec, Options) (Report, error){c.Install, c.Uninstall} {
				r, err := change(t.Context(), p, testServer, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if got := fileRights(t, file); got != before {
					t.Errorf("%s: got permissions %s, want %s", r.Outcome, got, before)
				}
			}
		}
	})

	t.Run("waits for a program that has the file open", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "to")
		writeTestFile(t, to, "old", 0o600)
		file, err := atomicfile.Create(to, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Abort()
		if _, err := file.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(to) // as most programs do, which keeps others from replacing it
		if err != nil {
			t.Fatal(err)
		}
		attempts := 0
		err = replaceBy(file, func() error {
			if attempts++; attempts == 3 {
				return f.Close()
			}
			return nil
		})
		if got := readTestFile(t, to); err != nil || got != "new" || attempts != 3 {
			t.Errorf("got %v, %q after %d checks, want it replaced after 3", err, got, attempts)
		}
	})
}

func fileRights(t *testing.T, path string) string {
	t.Helper()
	d, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}
