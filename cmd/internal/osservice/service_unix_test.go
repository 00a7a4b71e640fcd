//go:build unix

package osservice_test

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/osservice"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

var testOptions = osservice.Options{Executable: "/opt/a b/100%/repl", IdleTimeout: time.Hour, Path: `/bin:/x"y`, State: "/srv/a da/state"}

func findManager(t *testing.T, name string) osservice.Manager {
	t.Helper()
	for _, m := range osservice.Managers() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no service manager %s", name)
	return osservice.Manager{}
}

func TestFiles(t *testing.T) {
	t.Run("contain the settings that systemd needs", func(t *testing.T) {
		files, err := findManager(t, "systemd").Files(osservice.UserDirs{Home: "/srv/ada"}, testOptions)
		if err != nil || len(files) != 2 {
			t.Fatalf("got %+v, %v", files, err)
		}
		for file, lines := range map[int][]string{
			0: {"ListenStream=%t/turnstone/daemon.sock", "SocketMode=0600", "DirectoryMode=0700", "WantedBy=sockets.target"},
			1: {`ExecStart="/opt/a b/100%%/repl" serve --quiet --daemon-idle-timeout 1h0m0s`, `Environment="PATH=/bin:/x\"y"`, `Environment="XDG_STATE_HOME=/srv/a da/state"`,
				"Restart=on-failure", "RestartPreventExitStatus=2 3", "SuccessExitStatus=143", "Requires=turnstone.socket"},
		} {
			for _, line := range lines {
				if !strings.Contains(files[file].Content, "\n"+line+"\n") {
					t.Errorf("%s has no line %q:\n%s", files[file].Path, line, files[file].Content)
				}
			}
		}
		if files[1].Path != "/srv/ada/.config/systemd/user/turnstone.service" {
			t.Errorf("got %s", files[1].Path)
		}
		files, _ = findManager(t, "systemd").Files(osservice.UserDirs{Config: "/c"}, osservice.Options{Executable: "/repl", Socket: "/50%/s"})
		if files[0].Path != "/c/systemd/user/turnstone.socket" || !strings.Contains(files[0].Content, "\nListenStream=/50%%/s\n") || strings.Contains(files[1].Content, "daemon-idle-timeout") {
			t.Errorf("got %+v", files)
		}
	})

	t.Run("name the program that the service starts", func(t *testing.T) {
		for _, name := range []string{"systemd", "launchd"} {
			dir := t.TempDir()
			p := osservice.UserDirs{Home: dir}
			if got := osservice.InstalledProgram(p); got != "" {
				t.Errorf("without a service: %q", got)
			}
			for _, program := range []string{"/opt/repl", `/opt/a b/100%/"q"\&<repl>`} {
				files, err := findManager(t, name).Files(p, osservice.Options{Executable: program, Path: "/bin"})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					if err := (osservice.Step{Write: &f}).Execute(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := osservice.InstalledProgram(p); got != program {
					t.Errorf("%s: got %q, want %q", name, got, program)
				}
			}
		}
	})

	// systemd itself checks the files.
	t.Run("pass systemd-analyze verify", func(t *testing.T) {
		analyze, err := exec.LookPath("systemd-analyze")
		if err != nil {
			t.Skip("systemd-analyze is not installed")
		}
		dir := t.TempDir()
		repl := filepath.Join(dir, "re pl")
		if err := os.WriteFile(repl, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		files, err := findManager(t, "systemd").Files(osservice.UserDirs{Config: dir}, osservice.Options{Executable: repl, IdleTimeout: time.Hour, Path: "/bin:/100%"})
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"verify", "--user", "--man=no"}
		for _, f := range files {
			if err := (osservice.Step{Write: &f}).Execute(t.Context()); err != nil {
				t.Fatal(err)
			}
			args = append(args, f.Path)
		}
		cmd := exec.CommandContext(t.Context(), analyze, args...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "turnstone.") {
			t.Errorf("%v: %s", err, out)
		}
	})

	t.Run("are valid XML for launchd without KeepAlive", func(t *testing.T) {
		o := testOptions
		o.Executable, o.Socket = "/a&b/<repl>", "/s"
		files, err := findManager(t, "launchd").Files(osservice.UserDirs{Home: "/Users/ada"}, o)
		if err != nil || len(files) != 1 || !strings.HasPrefix(files[0].Path, "/Users/ada/Library/LaunchAgents/") {
			t.Fatalf("got %+v, %v", files, err)
		}
		var strs []string
		d := xml.NewDecoder(strings.NewReader(files[0].Content))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if c, ok := token.(xml.CharData); ok {
				strs = append(strs, strings.TrimSpace(string(c)))
			}
		}
		all := strings.Join(strs, "|")
		if !strings.Contains(all, "/a&b/<repl>||serve||--quiet||--socket||/s") || strings.Contains(all, "KeepAlive") {
			t.Errorf("got %s", all)
		}
	})

	t.Run("reject paths that a unit file cannot hold", func(t *testing.T) {
		for _, o := range []osservice.Options{{Executable: "repl"}, {Executable: "/a\nExecStart=/bin/sh"}, {Executable: "/repl", Socket: "s"}} {
			for _, m := range osservice.Managers() {
				if files, err := m.Files(osservice.UserDirs{}, o); err == nil {
					t.Errorf("%s: %+v gives %+v", m.Name, o, files)
				}
			}
		}
	})
}

// installFakeManager installs a systemctl that records its arguments.
func installFakeManager(t *testing.T, script string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	code := "#!/bin/sh\necho \"$@\" >> " + log + "\n" + script
	if err := testexec.WriteExecutable(filepath.Join(dir, "systemctl"), []byte(code)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return func() string {
		b, _ := os.ReadFile(log)
		return string(b)
	}
}

func TestInstall(t *testing.T) {
	t.Run("leaves nothing after uninstall", func(t *testing.T) {
		calls := installFakeManager(t, "")
		m, err := osservice.FindManager()
		if err != nil || m.Name != "systemd" {
			t.Fatalf("got %+v, %v", m, err)
		}
		p := osservice.UserDirs{Config: t.TempDir()}
		for range 2 { // a second time is not an error
			steps, err := m.Install(p, testOptions)
			if err != nil {
				t.Fatal(err)
			}
			runSteps(t, steps)
		}
		if i, err := os.Stat(filepath.Join(p.Config, "systemd", "user", "turnstone.socket")); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", i, err)
		}
		steps, err := m.Uninstall(p)
		if err != nil {
			t.Fatal(err)
		}
		runSteps(t, steps)
		if left, err := filepath.Glob(filepath.Join(p.Config, "systemd", "user", "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
		if steps, err := m.Uninstall(p); err != nil || steps != nil {
			t.Errorf("a second time: %v, %v", steps, err)
		}
		const start = "--user daemon-reload\n--user enable --now turnstone.socket\n"
		if want := start + start + "--user disable --now turnstone.socket turnstone.service\n--user daemon-reload\n"; calls() != want {
			t.Errorf("systemctl was called with %q", calls())
		}
	})

	t.Run("does not touch foreign files", func(t *testing.T) {
		p := osservice.UserDirs{Config: t.TempDir()}
		path := filepath.Join(p.Config, "systemd", "user", "turnstone.service")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("[Service]\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		m := findManager(t, "systemd")
		if _, err := m.Install(p, testOptions); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("install: %v", err)
		}
		if _, err := m.Uninstall(p); err == nil {
			t.Error("uninstall would remove the foreign file")
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "turnstone.socket")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a part of the files was written: %v", err)
		}
	})

	t.Run("returns the message of the service manager", func(t *testing.T) {
		installFakeManager(t, "echo no bus here >&2; exit 1\n")
		err := osservice.Step{Run: []string{"systemctl", "--user", "daemon-reload"}}.Execute(t.Context())
		if err == nil || err.Error() != "systemctl --user daemon-reload failed: no bus here" {
			t.Errorf("got %v", err)
		}
		t.Setenv("PATH", t.TempDir())
		if _, err := osservice.FindManager(); err == nil || !strings.Contains(err.Error(), "neither systemctl nor launchctl is on PATH") {
			t.Errorf("got %v", err)
		}
	})
}

func runSteps(t *testing.T, steps []osservice.Step) {
	t.Helper()
	for _, s := range steps {
		if err := s.Execute(t.Context()); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
