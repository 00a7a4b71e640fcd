//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
)

// Each file in testdata/script tests a part of the command line as scripts use it. Besides the
// commands of testscript there are:
//
//	status N COMMAND…   runs a command that must end with this status
//	expand FROM TO      copies a file with the values of its variables
//	serve               runs a daemon until the end of the script
//	[sandbox] COMMAND…  is for systems that allow sandboxes
func TestScript(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			h := newDaemonHome(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Setup: func(env *testscript.Env) error {
					env.Vars = append(env.Vars, h.env...)
					env.Setenv("PATH", filepath.Dir(replbin.Path())+string(filepath.ListSeparator)+os.Getenv("PATH"))
					return nil
				},
				Condition: func(name string) (bool, error) {
					if name != "sandbox" {
						return false, fmt.Errorf("unknown condition %s", name)
					}
					return sandboxcheck.WhyNoNamespaces() == "", nil
				},
				Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
					"status": wantStatus,
					"expand": expandFile,
					"serve":  func(*testscript.TestScript, bool, []string) { h.startDaemon(t) },
				},
			})
			h.wantNothingLeft(t)
		})
	}
}

func wantStatus(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var ended *exec.ExitError
	switch {
	case err == nil:
		ts.Fatalf("it ended with status 0, want %d", want)
	case !errors.As(err, &ended):
		ts.Fatalf("%v", err)
	case ended.ExitCode() != want:
		ts.Fatalf("it ended with %v, want status %d", ended, want)
	}
}

func expandFile(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}
