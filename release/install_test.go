package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// findTool returns the path of a program, or skips the test.
func findTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if last, err := os.UserCacheDir(); err == nil && name == "uv" {
			if path := filepath.Join(last, "turnstone", "uv", "bin", "uv"); pathExists(path) {
				return path
			}
		}
		t.Skipf("%s is not installed: scripts/setup-dev installs it", name)
	}
	return path
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// runInstalled runs a program with only a home directory and a PATH, and returns its output.
func runInstalled(t *testing.T, path string, words ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Dir = t.TempDir()
	c.Env = []string{"HOME=" + t.TempDir(), "PATH=" + path, "UV_OFFLINE=1", "UV_CACHE_DIR=" + filepath.Join(t.TempDir(), "uv-cache"), "npm_config_offline=true", "TMPDIR=" + t.TempDir()}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", words, err, out)
	}
	return string(out)
}

const systemPath = "/usr/bin:/bin"

// checkInstalled starts the installed program, and checks its version, its source and a session.
func checkInstalled(t *testing.T, from string, words ...string) {
	t.Helper()
	version := runInstalled(t, "/nonexistent", append(words, "version")...)
	if !strings.HasPrefix(version, "repl "+testVersion+" (commit ") || !strings.Contains(version, "from "+from) {
		t.Errorf("repl version: %s; want %s, from %s", version, testVersion, from)
	}
	if output := runInstalled(t, systemPath, append(words, "--lang", "python", "-e", "print(6 * 7)")...); output != "42\n" {
		t.Errorf("6 * 7: %q", output)
	}
}

func TestPackages(t *testing.T) {
	t.Run("archive runs on a machine without Go", func(t *testing.T) {
		dir := t.TempDir()
		runInstalled(t, systemPath, "tar", "-xzf", findOne(t, "*_linux_amd64.tar.gz"), "-C", dir)
		checkInstalled(t, "an archive", filepath.Join(dir, "turnstone-repl_"+testNumber+"_linux_amd64", "repl"))
	})

	t.Run("wheel installs with pip", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "venv")
		runInstalled(t, systemPath, findTool(t, "/usr/bin/python3"), "-m", "venv", dir)
		wheel := findOne(t, "*x86_64*.whl")
		runInstalled(t, systemPath, filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
		checkInstalled(t, "pip", filepath.Join(dir, "bin", "repl"))
		checkInstalled(t, "pip", filepath.Join(dir, "bin", "turnstone-repl"))
		checkInstalled(t, "pip", filepath.Join(dir, "bin", "python"), "-m", "turnstone_repl")
		// A session started in the environment uses its Python.
		if output := runInstalled(t, filepath.Join(dir, "bin")+":"+systemPath, filepath.Join(dir, "bin", "repl"), "-e", "import sys; print(sys.prefix)"); output != dir+"\n" {
			t.Errorf("the session ran in %s", output)
		}
		runInstalled(t, systemPath, filepath.Join(dir, "bin", "pip"), "uninstall", "--quiet", "--yes", packageName)
		if pathExists(filepath.Join(dir, "bin", "repl")) {
			t.Error("pip uninstall left the program behind")
		}
	})

	t.Run("Python client finds the program that its extra installs", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "venv")
		runInstalled(t, systemPath, findTool(t, "/usr/bin/python3"), "-m", "venv", dir)
		pip := []string{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--no-index", "--disable-pip-version-check", "--find-links", filepath.Dir(findOne(t, "turnstone_client-*-py3-none-any.whl"))}
		python := filepath.Join(dir, "bin", "python")
		runInstalled(t, systemPath, append(pip, clientPackageName)...)
		run := "import turnstone_client as t\ntry:\n  with t.Session() as s: print(s.run('6 * 7').value)\nexcept t.TurnstoneError as error: print(error)"
		if output := runInstalled(t, "/nonexistent", python, "-c", run); !strings.Contains(output, "pip install 'turnstone-client[repl]'") {
			t.Errorf("without the extra: %s", output)
		}
		runInstalled(t, systemPath, append(pip, clientPackageName+"[repl]")...)
		if output := runInstalled(t, "/nonexistent", python, "-c", run); output != "42\n" {
			t.Errorf("%s", output)
		}
		versions := "import turnstone_client as t, turnstone_client.program as p, importlib.metadata as m; print(t.__version__ == m.version('turnstone-client') == m.version('turnstone-repl'), p.find_program())"
		if output := runInstalled(t, systemPath, python, "-c", versions); output != "True "+filepath.Join(dir, "bin", "repl")+"\n" {
			t.Errorf("%s", output)
		}
		// An installation into a directory has its programs in a directory of its own.
		target := t.TempDir()
		runInstalled(t, systemPath, append(pip, "--target", target, clientPackageName+"[repl]")...)
		if output := runInstalled(t, "/nonexistent", "/usr/bin/python3", "-c", "import sys; sys.path.insert(0, '"+target+"')\n"+run); output != "42\n" {
			t.Errorf("--target: %s", output)
		}
	})

	t.Run("wheel uses the user's Python when started by uvx", func(t *testing.T) {
		uv, wheel := findTool(t, "uv"), findOne(t, "*x86_64*.whl")
		uvx := []string{uv, "tool", "run", "--python", "/usr/bin/python3", "--from", wheel}
		if output := runInstalled(t, systemPath, append(uvx, "turnstone-repl", "version")...); !strings.Contains(output, "from uvx") {
			t.Errorf("%s", output)
		}
		for _, name := range []string{"repl", "turnstone-repl"} {
			output := runInstalled(t, systemPath, append(uvx, name, "-e", "import sys; print(sys.executable)")...)
			if last := lastLine(output); last != "/usr/bin/python3" {
				t.Errorf("%s: the session ran in %s", name, last)
			}
		}
		if output := runInstalled(t, systemPath, append(uvx, "repl", "install", "cursor", "--dry-run")...); !strings.Contains(output, `"uvx"`) || strings.Contains(output, "archive-v0") {
			t.Errorf("install: %s", output)
		}
	})

	t.Run("wheel installs permanently with uv tool", func(t *testing.T) {
		uv, wheel, home := findTool(t, "uv"), findOne(t, "*x86_64*.whl"), t.TempDir()
		c := exec.CommandContext(t.Context(), uv, "tool", "install", "--quiet", "--python", "/usr/bin/python3", wheel)
		c.Env = []string{"HOME=" + home, "PATH=" + systemPath, "UV_OFFLINE=1", "UV_TOOL_DIR=" + home + "/tools", "UV_TOOL_BIN_DIR=" + home + "/bin", "UV_CACHE_DIR=" + home + "/cache"}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		checkInstalled(t, "uv tool", filepath.Join(home, "bin", "repl"))
	})

	t.Run("npm package returns the program's exit status", func(t *testing.T) {
		npm, node := findTool(t, "npm"), findTool(t, "node")
		prefix := t.TempDir()
		runInstalled(t, filepath.Dir(node)+":"+systemPath, npm, "install", "--silent", "--no-audit", "--no-fund", "--global", "--prefix", prefix,
			findOne(t, "turnstone-repl-linux-x64-*.tgz"), findOne(t, "turnstone-repl-"+testNumber+".tgz"))
		path := filepath.Dir(node) + ":" + systemPath
		repl := filepath.Join(prefix, "bin", "repl")
		version := runInstalled(t, path, repl, "version")
		if !strings.Contains(version, testVersion) || !strings.Contains(version, "from npm") {
			t.Errorf("%s", version)
		}
		if output := runInstalled(t, path, repl, "-e", "print(6 * 7)"); output != "42\n" {
			t.Errorf("%q", output)
		}
		for code, want := range map[string]int{"raise SystemExit(7)": 7, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": 1} {
			c := exec.CommandContext(t.Context(), repl, "-e", code)
			c.Env = []string{"HOME=" + t.TempDir(), "PATH=" + path}
			_ = c.Run()
			if got := c.ProcessState.ExitCode(); got != want && !(want == 1 && got > 0) {
				t.Errorf("%s: status %d", code, got)
			}
		}
	})

	t.Run("TypeScript client finds the program that npm installs with it", func(t *testing.T) {
		npm, node := findTool(t, "npm"), findTool(t, "node")
		path, dir := filepath.Dir(node)+":"+systemPath, t.TempDir()
		runInstalled(t, path, npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir,
			findOne(t, "turnstone-repl-linux-x64-*.tgz"), findOne(t, "turnstone-repl-"+testNumber+".tgz"), findOne(t, "turnstone-client-"+testNumber+".tgz"))
		script := filepath.Join(dir, "run.mjs")
		writeFiles(t, dir, map[string]string{"run.mjs": `import { Session } from "turnstone-client";
const session = await Session.open();
console.log((await session.run("6 * 7")).value);
await session.close();
`})
		if output := runInstalled(t, path, node, script); output != "42\n" {
			t.Errorf("%q", output)
		}
		for _, name := range []string{"dist/index.d.ts", "LICENSE"} {
			if !pathExists(filepath.Join(dir, "node_modules", clientPackageName, name)) {
				t.Errorf("%s is missing", name)
			}
		}
	})

	t.Run("deb package installs and uninstalls", func(t *testing.T) {
		dpkg := findTool(t, "dpkg")
		root := t.TempDir()
		for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"status", "available"} {
			if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		at := []string{dpkg, "--root=" + root, "--force-not-root", "--log=/dev/null"}
		runInstalled(t, "/usr/sbin:/sbin:"+systemPath, append(at, "--install", findOne(t, "*_amd64.deb"))...)
		repl := filepath.Join(root, "usr/bin/repl")
		if version := runInstalled(t, "/nonexistent", repl, "version"); !strings.Contains(version, testVersion) {
			t.Errorf("%s", version)
		}
		if output := runInstalled(t, systemPath, repl, "-e", "print(6 * 7)"); output != "42\n" {
			t.Errorf("%q", output)
		}
		for _, name := range []string{"usr/share/man/man1/repl.1", "usr/share/bash-completion/completions/repl", "usr/share/doc/turnstone-repl/LICENSE", "usr/share/doc/turnstone-repl/copyright", "usr/share/doc/turnstone-repl/" + noticesName} {
			if !pathExists(filepath.Join(root, name)) {
				t.Errorf("%s is missing", name)
			}
		}
		version := strings.TrimSpace(runInstalled(t, systemPath, "dpkg-deb", "--field", findOne(t, "*_amd64.deb"), "Version"))
		runInstalled(t, systemPath, dpkg, "--compare-versions", version, "lt", strings.TrimPrefix(testVersion[:strings.Index(testVersion, "-")], "v")+"-1")
		runInstalled(t, "/usr/sbin:/sbin:"+systemPath, append(at, "--remove", packageName)...)
		if pathExists(repl) {
			t.Error("dpkg --remove left the program behind")
		}
	})

	t.Run("rpm package installs", func(t *testing.T) {
		rpm := findTool(t, "rpm")
		root := t.TempDir()
		runInstalled(t, systemPath, rpm, "--root", root, "--initdb")
		runInstalled(t, systemPath, rpm, "--root", root, "--nodeps", "--ignorearch", "-i", findOne(t, "*.x86_64.rpm"))
		if version := runInstalled(t, "/nonexistent", filepath.Join(root, "usr/bin/repl"), "version"); !strings.Contains(version, testVersion) {
			t.Errorf("%s", version)
		}
	})
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
