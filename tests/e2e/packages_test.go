//go:build unix

package e2e

import (
	"archive/zip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// withTiny is a home whose pip knows one package, tiny, and reaches nothing else.
func withTiny(t *testing.T, h home) home {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "tiny-1.0-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z := zip.NewWriter(file)
	for name, content := range map[string]string{
		"tiny/__init__.py":            "answer = 42\n",
		"tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
		"tiny-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"tiny-1.0.dist-info/RECORD":   "tiny/__init__.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n",
	} {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	h.env = slices.Insert(h.env, len(h.env)-1, // the last is the socket
		"PIP_NO_INDEX=1", "PIP_FIND_LINKS="+dir, "UV_NO_INDEX=1", "UV_OFFLINE=1", "UV_FIND_LINKS="+dir,
		"XDG_CACHE_HOME="+t.TempDir())
	return h
}

func TestWith_PackagesAreThereForOneProgramOnly(t *testing.T) {
	h := withTiny(t, newHome(t))
	want(t, h.run(t, "", "--with", "tiny", "-e", "import tiny; print(tiny.answer)"), result{"42\n", "", 0})
	want(t, h.run(t, "import tiny; print(tiny.answer)", "--with", "tiny"), result{"42\n", "", 0})
	if r := h.run(t, "", "-e", "import tiny"); r.status != 1 || !strings.Contains(r.stderr, "ModuleNotFoundError") {
		t.Errorf("without --with: %v", r)
	}
	if r := h.run(t, "", "--with", "nosuchthing", "-e", "1"); r.status != 1 || !strings.Contains(r.stderr, "nosuchthing cannot be prepared") || r.stdout != "" {
		t.Errorf("what there is not: %v", r)
	}
	want(t, h.run(t, "", "--with", "-r x", "-e", "1"),
		result{"", "repl: --with: \"-r x\" is no package of Python's: write it as for pip, such as numpy or 'numpy>=2'\n", 2})
	h.leavesNothing(t)
}

func TestWith_CtrlCGivesUp(t *testing.T) {
	h := withTiny(t, newHome(t))
	bin := t.TempDir()
	uv := filepath.Join(bin, "uv")
	if err := os.WriteFile(uv, []byte("#!/bin/sh\necho $$ > "+uv+".pid\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "PATH="+bin+":"+os.Getenv("PATH"))
	cmd := h.command(t, "--with", "tiny", "-e", "1")
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	eventually(t, "the tool runs", func() bool {
		text, _ := os.ReadFile(uv + ".pid")
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if s := status(t, cmd); s != 130 || errs.String() != "" {
		t.Errorf("status %d, errors %q", s, errs.String())
	}
	gone(t, pid)
	h.leavesNothing(t)
}

func TestWith_ASessionOfTheDaemonsHasThem(t *testing.T) {
	h := withTiny(t, daemonHome(t))
	daemon := h.serve(t)
	want(t, h.run(t, "", "exec", "main", "--with", "tiny", "-e", "import tiny; print(tiny.answer)"), result{"42\n", "", 0})
	want(t, h.run(t, "", "exec", "main", "--with", "Tiny", "-e", "tiny.answer + 1"), result{"43\n", "", 0})
	want(t, h.run(t, "", "exec", "main", "--with", "other", "-e", "1"),
		result{"", "repl: main is there already, without other: use another name, or repl close main first\n", 1})
	if r := h.run(t, "", "exec", "second", "--with", "nosuchthing", "-e", "1"); r.status != 1 || !strings.Contains(r.stderr, "nosuchthing cannot be prepared") {
		t.Errorf("what there is not: %v", r)
	}
	want(t, h.run(t, "", "ctl", "stop"), result{"", "", 0})
	if _ = daemon.Wait(); daemon.ProcessState.ExitCode() != 0 {
		t.Errorf("the daemon: %v", daemon.ProcessState)
	}
	h.leavesNothing(t)
}
