//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// The kernel does not limit the processes of root.
func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, RunAll: sandboxcheck.RunUnprivileged, Serial: true})
}

// forks starts at most 200 processes, so that the machine survives a missing limit.
const forks = `
import os, time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
`

func TestExample(t *testing.T) {
	t.Parallel()
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		t.Skipf("needs Python: %v", spec.Err)
	}
	sandboxcheck.RequireNamespaces(t)
	sup, err := supervisor.New(&supervisor.Options{Dir: sandboxcheck.TempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	outside := filepath.Join(sandboxcheck.TempDir(t), "outside")
	programs := []struct{ code, verdict string }{
		{"while True: pass", "too slow"},
		{"x = [bytearray(1 << 24) for _ in range(100)]", "failed: MemoryError"},
		{forks, "failed: BlockingIOError"},
		{"import socket; socket.create_connection(('192.0.2.1', 80), 1)", "failed: OSError"},
		{fmt.Sprintf("open(%q, 'w')", outside), "failed: "},
		{"open('large', 'wb').write(bytes(1 << 26))", "failed: OSError"},
		{"import os; os._exit(3)", "failed: WorkerEnded: exit status 3"},
		{"def f(:", "failed: SyntaxError"},
		{"print('x' * 10_000_000)", "passed"},
		{"input()", "failed: EOFError"},
	}
	for i := len(programs); i < 50; i++ {
		programs = append(programs, struct{ code, verdict string }{fmt.Sprintf("print(%d)", i), "passed"})
	}
	var files []string
	dir := t.TempDir()
	for i, p := range programs {
		file := filepath.Join(dir, fmt.Sprintf("%02d.py", i))
		if err := os.WriteFile(file, []byte(p.code), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for i, g := range gradeAll(t.Context(), sup, files) {
		if !strings.HasPrefix(g.verdict, programs[i].verdict) || len(g.output) > 64<<10 {
			t.Errorf("%.60q: got %q, want %q", programs[i].code, g.verdict, programs[i].verdict)
		}
		if i >= 10 && g.output != fmt.Sprintln(i) {
			t.Errorf("program %d printed %q", i, g.output)
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a program wrote outside of its directory")
	}
}
