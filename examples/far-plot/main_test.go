//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{BuildRepl: true})
}

// The command env plays the one that reaches another machine: a daemon behind a pipe.
func TestExample(t *testing.T) {
	t.Parallel()
	python := os.Getenv("TURNSTONE_TEST_MATPLOTLIB")
	if python == "" {
		python = "python3"
	}
	python, err := exec.LookPath(python)
	if err == nil {
		err = exec.CommandContext(t.Context(), python, "-c", "import matplotlib").Run()
	}
	if err != nil {
		t.Skip("matplotlib is not installed")
	}
	home := t.TempDir()
	prefix := []string{"env", "HOME=" + home, "XDG_STATE_HOME=" + home, "PATH=" + filepath.Dir(python) + ":" + os.Getenv("PATH"), "VIRTUAL_ENV="}
	t.Cleanup(func() {
		stop := exec.Command(prefix[0], append(prefix[1:], replbin.Path(), "daemon", "stop")...)
		if out, err := stop.CombinedOutput(); err != nil {
			t.Errorf("stop the daemon: %v: %s", err, out)
		}
	})
	link := client.New(&remote.CommandDialer{Prefix: prefix, Program: replbin.Path(), StartDaemon: true}, nil)
	defer link.Close()
	for range 2 { // the files of the first run are replaced
		var plot bytes.Buffer
		if err := drawPlot(t.Context(), link, home, strings.NewReader("turnstone,12\nknot,30\n"), &plot); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(plot.Bytes(), []byte("\x89PNG")) {
			t.Errorf("got %.20q", plot.Bytes())
		}
	}
	if _, err := os.Stat(filepath.Join(home, "data.csv")); err != nil {
		t.Error(err)
	}
}
