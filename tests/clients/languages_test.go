//go:build linux

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

func TestClientLibraries(t *testing.T) {
	t.Parallel()

	// The subtests run the client's own tests against the built command, with the oldest and the newest
	// Python. An object that was not closed is an error in them.
	pythons, others, err := interpreters.Selected()
	if err != nil {
		t.Fatal(err)
	}
	if others != "" {
		t.Log(others)
	}
	for _, python := range pythons {
		t.Run("the Python client passes its own tests with "+python.Version, func(t *testing.T) {
			t.Parallel()
			checker := "PYRIGHT=" + strings.Join(nodeCommand(t, installedFile(t, "pyright/index.js")), " ")
			runScript(t, "../../clients/python", []string{checker}, python.Path, "-W", "error::ResourceWarning", "-m", "unittest", "discover", "-s", "tests")
		})
	}

	// The test files have accesses that must be errors, so a type that became "any" fails, too.
	t.Run("pyright accepts the Python client, and narrows an event by its type", func(t *testing.T) {
		t.Parallel()
		checker := nodeCommand(t, installedFile(t, "pyright/index.js"))
		modules, err := filepath.Glob("../../clients/python/turnstone_client/*.py") // not ext, which needs agent frameworks
		if err != nil || len(modules) == 0 {
			t.Fatal(modules, err)
		}
		for i, path := range modules {
			modules[i] = filepath.Join("turnstone_client", filepath.Base(path))
		}
		runScript(t, "../../clients/python", nil, append(checker, modules...)...)
		runScript(t, "../../clients/python", nil, append(checker, "-p", "tests")...)
	})

	// The script compiles the client, and runs its tests against the built command.
	t.Run("the TypeScript client passes its own tests", func(t *testing.T) {
		t.Parallel()
		out := t.TempDir()
		modules := filepath.Join(os.Getenv(clientsEnv), "node_modules")
		// The compiler looks for the types of Node.js next to the sources.
		copied := filepath.Join(out, "clients", "typescript")
		if err := os.CopyFS(copied, os.DirFS("../../clients/typescript")); err != nil {
			t.Fatal(err)
		}
		license, err := os.ReadFile("../../LICENSE") // which pack.mjs copies
		if err == nil {
			err = os.WriteFile(filepath.Join(out, "LICENSE"), license, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(modules, filepath.Join(out, "node_modules")); err != nil {
			t.Fatal(err)
		}
		compiler := nodeCommand(t, installedFile(t, "typescript/bin/tsc"))
		runScript(t, copied, nil, compiler...)
		runScript(t, copied, nil, append(compiler, "-p", "test")...)
		tests, err := filepath.Glob(filepath.Join(copied, "test", "*.test.mjs"))
		if err != nil {
			t.Fatal(err)
		}
		built := []string{"TURNSTONE_CLIENT=" + filepath.Join(copied, "dist", "index.js"), "TURNSTONE_TSC=" + installedFile(t, "typescript/bin/tsc")}
		runScript(t, copied, built, append(nodeCommand(t, "--test", "--test-concurrency=2"), tests...)...)
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
