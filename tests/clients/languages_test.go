//go:build linux

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

func TestClientLibraries(t *testing.T) {
	t.Parallel()

	// TestClientLibraries runs the client's own tests against the built command.
	t.Run("the Python client passes its own tests", func(t *testing.T) {
		t.Parallel()
		runScript(t, "../../clients/python", nil, "/usr/bin/python3", "-m", "unittest", "-v", "tests/test_client.py", "tests/test_transfer.py")
	})

	// The script compiles the client, and runs its tests against the built command.
	t.Run("the TypeScript client passes its own tests", func(t *testing.T) {
		t.Parallel()
		out := t.TempDir()
		modules := filepath.Join(os.Getenv(clientsEnv), "node_modules")
		// The compiler looks for the types of Node.js next to the sources.
		copied := filepath.Join(out, "client")
		if err := os.CopyFS(copied, os.DirFS("../../clients/typescript")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(modules, filepath.Join(out, "node_modules")); err != nil {
			t.Fatal(err)
		}
		runScript(t, copied, nil, nodeCommand(t, installedFile(t, "typescript/bin/tsc"))...)
		built := []string{"TURNSTONE_CLIENT=" + filepath.Join(copied, "dist", "index.js")}
		runScript(t, copied, built, append(nodeCommand(t, "--test"), filepath.Join(copied, "test", "client.test.mjs"), filepath.Join(copied, "test", "transfer.test.mjs"))...)
	})
}

func runScript(t *testing.T, dir string, env []string, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "REPL="+replbin.Path()), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}
