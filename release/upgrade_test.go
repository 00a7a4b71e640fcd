package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	oldVersion = "v0.1.0"
	oldNumber  = "0.1.0"
)

// buildOldOnce builds what package managers install of an older version once, for this system. It is
// the same commit: only its version is older.
var buildOldOnce = sync.OnceValues(func() (string, error) {
	if _, err := buildOnce(); err != nil { // which makes builtDir
		return "", err
	}
	source, err := checkOut(context.Background(), oldVersion, "HEAD")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(source.dir)
	r := &release{version: oldNumber, source: source, out: filepath.Join(builtDir, "old")}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return "", err
	}
	chosen, err := parseTargets(hostTarget())
	if err != nil {
		return "", err
	}
	if err := r.compilePrograms(context.Background(), chosen); err != nil {
		return "", err
	}
	for _, write := range []func() error{r.writeArchives, r.writeWheels, r.writeNPMPackages} {
		if err := write(); err != nil {
			return "", err
		}
	}
	return r.out, nil
})

// oldReleaseDir returns the directory of the older version.
func oldReleaseDir(t *testing.T) string {
	t.Helper()
	releaseDir(t) // skips on other systems
	out, err := buildOldOnce()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A machine is the home directory and the environment of a user.
type machine struct {
	home string
	env  []string
}

func newMachine(t *testing.T, path string, env ...string) machine {
	t.Helper()
	home, err := os.MkdirTemp("", "up") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	return machine{home, append([]string{"HOME=" + home, "PATH=" + path, "TMPDIR=" + home, "XDG_RUNTIME_DIR=" + home, "TURNSTONE_SOCKET=" + filepath.Join(home, "s")}, env...)}
}

func (m machine) command(t *testing.T, words ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Dir, c.Env = m.home, m.env
	return c
}

// run returns the standard output of a command that succeeds.
func (m machine) run(t *testing.T, words ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	c := m.command(t, words...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", words, err, out, stderr.Bytes())
	}
	return string(out)
}

// linkFiles makes the files of a release that match a pattern available in a directory.
func linkFiles(t *testing.T, from, pattern, to string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(from, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	for _, path := range found {
		if err := os.Link(path, filepath.Join(to, filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
	}
}

// settingsOf returns the checksums of the files that the user or repl has written below the home
// directory, by path.
func (m machine) settingsOf(t *testing.T, paths ...string) (sums []string) {
	t.Helper()
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(m.home, path))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, fmt.Sprintf("%s %x", path, sha256.Sum256(text)))
	}
	return sums
}

// checkUpgrade upgrades an installed older version, whose newer one publish makes available, and
// checks that everything that was configured for the older one goes on.
func checkUpgrade(t *testing.T, m machine, from, repl string, publish func()) {
	t.Helper()
	if got := m.run(t, repl, "version"); !strings.HasPrefix(got, "repl "+oldVersion+" (commit ") || !strings.Contains(got, "from "+from+";") {
		t.Fatalf("before: %s", got)
	}
	m.run(t, repl, "install", "cursor", "--memory", "1G")
	settings := filepath.Join(".config", "turnstone", "remotes.toml")
	if err := os.MkdirAll(filepath.Join(m.home, filepath.Dir(settings)), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, filepath.Join(m.home, filepath.Dir(settings)), map[string]string{"remotes.toml": "[remotes.box]\nvia = \"ssh box\"\n"})
	before := m.settingsOf(t, settings, ".cursor/mcp.json")
	daemon := m.command(t, repl, "serve", "--quiet")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	awaitDaemon(t, m, repl)
	m.run(t, repl, "exec", "main", "-e", "x = 6")

	// Without a terminal and without --yes nothing changes.
	out, err := m.command(t, repl, "upgrade").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "nothing was run") {
		t.Errorf("without --yes: %v\n%s", err, out)
	}
	if got := m.run(t, repl, "version"); !strings.HasPrefix(got, "repl "+oldVersion+" ") {
		t.Errorf("without --yes: %s", got)
	}
	if got := m.run(t, repl, "upgrade", "--yes"); !strings.Contains(got, "The version is still "+oldVersion) || strings.Contains(got, "daemon drain") {
		t.Errorf("without a newer version: %s", got)
	}

	publish()
	got := m.run(t, repl, "upgrade", "--yes")
	for _, part := range []string{" is now repl " + testVersion + " (commit ", "is still repl " + oldVersion + ", with 1 session. repl daemon drain ends it"} {
		if !strings.Contains(got, part) {
			t.Errorf("repl upgrade --yes: no %q in\n%s", part, got)
		}
	}
	if got := m.run(t, repl, "version"); !strings.HasPrefix(got, "repl "+testVersion+" (commit ") || !strings.Contains(got, "from "+from+";") {
		t.Errorf("after: %s", got)
	}
	if after := m.settingsOf(t, settings, ".cursor/mcp.json"); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("the settings were %q and are %q", before, after)
	}
	if got := m.run(t, repl, "remote", "list"); !strings.Contains(got, "box") {
		t.Errorf("repl remote list: %s", got)
	}
	startEntry(t, m)

	// The old daemon keeps its sessions for the new command, until it is drained.
	if got := m.run(t, repl, "exec", "main", "-e", "print(x * 7)"); got != "42\n" {
		t.Errorf("in the session of the old daemon: %s", got)
	}
	if got := m.run(t, repl, "exec", "second", "-e", "print(6 * 7)"); got != "42\n" {
		t.Errorf("in a new session of the old daemon: %s", got)
	}
	if got := m.run(t, repl, "daemon", "status"); !strings.Contains(got, "The daemon runs repl "+oldVersion+", and this command is repl "+testVersion) {
		t.Errorf("repl daemon status: %s", got)
	}
	m.run(t, repl, "daemon", "drain")
	if err := daemon.Wait(); err != nil {
		t.Errorf("after the drain: %v", err)
	}
}

// awaitDaemon waits until a daemon answers.
func awaitDaemon(t *testing.T, m machine, repl string) {
	t.Helper()
	for t.Context().Err() == nil {
		if m.command(t, repl, "daemon", "status").Run() == nil {
			return
		}
	}
	t.Fatal("no daemon answers")
}

// startEntry starts the MCP server of the client's entry, as the client does.
func startEntry(t *testing.T, m machine) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.home, ".cursor", "mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	entry := file.MCPServers["turnstone"]
	c := m.command(t, append([]string{entry.Command}, entry.Args...)...)
	c.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n")
	out, err := c.Output()
	if err != nil || !bytes.Contains(out, []byte(`"version":"`+testVersion+`"`)) {
		t.Errorf("the entry %v: %v\n%s", entry, err, out)
	}
}

// npmRegistry serves the packages of the directories that are published, the last as the newest.
type npmRegistry struct {
	*httptest.Server
	published []string
}

func newNPMRegistry(t *testing.T) *npmRegistry {
	r := &npmRegistry{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *npmRegistry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if name, ok := strings.CutPrefix(q.URL.Path, "/files/"); ok {
		http.ServeFile(w, q, filepath.Join("/", name))
		return
	}
	versions, newest := map[string]json.RawMessage{}, ""
	for _, dir := range r.published {
		files, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
		for _, file := range files {
			about, sum := npmManifest(file)
			if about["name"] != strings.Trim(q.URL.Path, "/") {
				continue
			}
			about["dist"] = map[string]string{"tarball": r.URL + "/files" + file, "integrity": "sha512-" + sum}
			newest = fmt.Sprint(about["version"])
			versions[newest], _ = json.Marshal(about)
		}
	}
	if newest == "" {
		http.NotFound(w, q)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": strings.Trim(q.URL.Path, "/"), "dist-tags": map[string]string{"latest": newest}, "versions": versions})
}

// npmManifest returns the package.json of a package, and the checksum of the package.
func npmManifest(file string) (about map[string]any, sum string) {
	text, _ := exec.Command("tar", "-xzOf", file, "package/package.json").Output()
	_ = json.Unmarshal(text, &about)
	content, _ := os.ReadFile(file)
	digest := sha512.Sum512(content)
	return about, base64.StdEncoding.EncodeToString(digest[:])
}

func TestUpgrade(t *testing.T) {
	t.Run("goes through uv tool", func(t *testing.T) {
		uv, old, index := findTool(t, "uv"), oldReleaseDir(t), t.TempDir()
		m := newMachine(t, filepath.Dir(uv)+":"+systemPath, "UV_OFFLINE=1", "UV_NO_INDEX=1", "UV_FIND_LINKS="+index, "UV_PRERELEASE=allow", "UV_PYTHON=/usr/bin/python3")
		linkFiles(t, old, "turnstone_repl-*.whl", index)
		m.run(t, uv, "tool", "install", "--quiet", packageName)
		checkUpgrade(t, m, "uv tool", filepath.Join(m.home, ".local", "bin", "repl"), func() { linkFiles(t, releaseDir(t), "turnstone_repl-*x86_64*.whl", index) })
	})

	t.Run("says that a pinned version stays", func(t *testing.T) {
		uv, index := findTool(t, "uv"), t.TempDir()
		m := newMachine(t, filepath.Dir(uv)+":"+systemPath, "UV_OFFLINE=1", "UV_NO_INDEX=1", "UV_FIND_LINKS="+index, "UV_PRERELEASE=allow", "UV_PYTHON=/usr/bin/python3")
		linkFiles(t, oldReleaseDir(t), "turnstone_repl-*.whl", index)
		linkFiles(t, releaseDir(t), "turnstone_repl-*x86_64*.whl", index)
		m.run(t, uv, "tool", "install", "--quiet", packageName+"=="+oldNumber)
		if got := m.run(t, filepath.Join(m.home, ".local", "bin", "repl"), "upgrade", "--yes"); !strings.Contains(got, "The version is still "+oldVersion+": it is the newest that uv tool finds, or a version was pinned") {
			t.Errorf("got %s", got)
		}
	})

	t.Run("goes through pip in an environment", func(t *testing.T) {
		python, old, index := findTool(t, "/usr/bin/python3"), oldReleaseDir(t), t.TempDir()
		m := newMachine(t, systemPath, "PIP_NO_INDEX=1", "PIP_FIND_LINKS="+index, "PIP_PRE=1", "PIP_DISABLE_PIP_VERSION_CHECK=1")
		linkFiles(t, old, "turnstone_repl-*.whl", index)
		dir := filepath.Join(m.home, "venv")
		m.run(t, python, "-m", "venv", dir)
		m.run(t, filepath.Join(dir, "bin", "pip"), "install", "--quiet", packageName)
		checkUpgrade(t, m, "pip", filepath.Join(dir, "bin", "repl"), func() { linkFiles(t, releaseDir(t), "turnstone_repl-*x86_64*.whl", index) })
	})

	t.Run("goes through uv pip in an environment without pip", func(t *testing.T) {
		uv, index := findTool(t, "uv"), t.TempDir()
		m := newMachine(t, filepath.Dir(uv)+":"+systemPath, "UV_OFFLINE=1", "UV_NO_INDEX=1", "UV_FIND_LINKS="+index, "UV_PRERELEASE=allow")
		linkFiles(t, oldReleaseDir(t), "turnstone_repl-*.whl", index)
		dir := filepath.Join(m.home, "venv")
		m.run(t, uv, "venv", "--quiet", "--python", "/usr/bin/python3", dir)
		m.run(t, uv, "pip", "install", "--quiet", "--python", dir, packageName)
		checkUpgrade(t, m, "uv pip", filepath.Join(dir, "bin", "repl"), func() { linkFiles(t, releaseDir(t), "turnstone_repl-*x86_64*.whl", index) })
	})

	t.Run("goes through npm into the prefix of the installation", func(t *testing.T) {
		npm, node, registry := findTool(t, "npm"), findTool(t, "node"), newNPMRegistry(t)
		registry.published = []string{oldReleaseDir(t)}
		m := newMachine(t, filepath.Dir(npm)+":"+filepath.Dir(node)+":"+systemPath, "npm_config_registry="+registry.URL, "npm_config_update_notifier=false", "npm_config_audit=false", "npm_config_fund=false")
		prefix := filepath.Join(m.home, "global") // not the one of this npm
		m.run(t, npm, "install", "--silent", "--global", "--prefix", prefix, packageName)
		checkUpgrade(t, m, "npm", filepath.Join(prefix, "bin", "repl"), func() { registry.published = append(registry.published, releaseDir(t)) })
	})

	t.Run("of an archive is left to the user", func(t *testing.T) {
		dir := t.TempDir()
		m := newMachine(t, systemPath)
		m.run(t, "tar", "-xzf", findOne(t, "*_linux_amd64.tar.gz"), "-C", dir)
		repl := filepath.Join(dir, "turnstone-repl_"+testNumber+"_linux_amd64", "repl")
		out, err := m.command(t, repl, "upgrade", "--yes").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "from an archive. To get the newest, unpack the newest archive of ") || !strings.Contains(string(out), "replace "+repl+" by its repl") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// programOf returns the program of a release, unpacked.
func programOf(t *testing.T, dir, number string) string {
	t.Helper()
	to := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", filepath.Join(dir, "turnstone-repl_"+number+"_linux_amd64.tar.gz"), "-C", to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(to, "turnstone-repl_"+number+"_linux_amd64", "repl")
}

// checkWatched watches the session main while code runs in it.
func checkWatched(t *testing.T, m machine, command string) {
	t.Helper()
	watch := m.command(t, command, "attach", "--watch", "main")
	shown, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
	m.run(t, command, "exec", "main", "-e", "print(x + 2)")
	for lines := bufio.NewScanner(shown); lines.Scan(); {
		if strings.Contains(lines.Text(), "43") {
			return
		}
	}
	t.Error("attach --watch does not show the output")
}

func TestVersions(t *testing.T) {
	for name, reversed := range map[string]bool{"old daemon and new command": false, "new daemon and old command": true} {
		t.Run(name+" work together", func(t *testing.T) {
			server, command := programOf(t, oldReleaseDir(t), oldNumber), programOf(t, releaseDir(t), testNumber)
			served, own := oldVersion, testVersion
			if reversed {
				server, command, served, own = command, server, own, served
			}
			m := newMachine(t, systemPath)
			daemon := m.command(t, server, "serve", "--quiet")
			if err := daemon.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
			awaitDaemon(t, m, command)
			if got := m.run(t, command, "exec", "main", "-e", "x = 41"); got != "" {
				t.Errorf("exec: %s", got)
			}
			// An upgrade removes the file of the daemon's program, or replaces it.
			if err := os.Remove(server); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				words []string
				want  string
			}{
				{[]string{"list"}, "main"},
				{[]string{"exec", "main", "-e", "print(x + 1)"}, "42\n"},
				{[]string{"exec", "second", "-e", "print(6 * 7)"}, "42\n"},
				{[]string{"exec", "third", "--sandbox", "read-only", "--sandbox-fallback", "landlock", "-e", "print(6 * 7)"}, "42\n"},
				{[]string{"events", "main"}, "x + 1"},
				{[]string{"export", "main"}, "x = 41"},
				{[]string{"wait", "main"}, ""},
				{[]string{"interrupt", "main"}, ""},
				{[]string{"daemon", "metrics"}, "turnstone_"},
				{[]string{"daemon", "status"}, "The daemon runs repl " + served + ", and this command is repl " + own + ". repl daemon drain"},
				{[]string{"close", "second"}, ""},
			} {
				if got := m.run(t, append([]string{command}, step.words...)...); !strings.Contains(got, step.want) {
					t.Errorf("%q: %s; want %q", step.words, got, step.want)
				}
			}
			if strings.Contains(m.run(t, command, "daemon", "status"), "jupyter:ir") { // the kernel's worker is the daemon's program
				if got := m.run(t, command, "exec", "kernel", "--lang", "jupyter:ir", "-e", "cat(6 * 7)"); !strings.Contains(got, "42") {
					t.Errorf("a Jupyter kernel: %s", got)
				}
			}
			checkWatched(t, m, command)

			// The other version reads the files of a killed daemon.
			_ = daemon.Process.Kill()
			_ = daemon.Wait()
			if got := m.run(t, command, "recover", "main"); !strings.Contains(got, "x = 41") {
				t.Errorf("recover: %s", got)
			}
		})
	}
}
