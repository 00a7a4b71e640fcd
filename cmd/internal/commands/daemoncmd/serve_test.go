package daemoncmd

import (
	"errors"
	"flag"
	"path/filepath"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/testkit/kernelspecs"
)

// A daemon offers an installed kernel as a language.
func TestSpecFor_Kernel(t *testing.T) {
	kernelspecs.Install(t, map[string]string{"turnstone-basic": kernelspecs.Usable(t)})
	if names := languages.Names(); !slices.Contains(names, "jupyter:turnstone-basic") || names[0] != "python" {
		t.Errorf("%q", names)
	}
	s, err := specFor(protocol.CreateParams{Language: "jupyter:turnstone-basic", Dir: t.TempDir()})
	if err = errors.Join(err, s.Err); err != nil || s.Args[0] != languages.KernelWorker {
		t.Errorf("%+v, %v", s, err)
	}
}

// The flags of "repl serve --detach" reach the daemon, which parses them again in another directory.
func TestServe_DetachedFlags(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	given := []string{
		"--detach", "--log=l", "--warm=python=2", "--warm=r=1", "--warm-dir=.", "--memory=1.5G", "--session-dir=sessions",
		"--mcp-servers=" + filepath.Join(dir, "a,b.json"), "--mcp-servers=codex,claude", "--allow-tool=x.y", "--allow-tool=z.*", "--daemon-idle-timeout=1h",
	}
	args := forwardFlags(t, given)
	want := []string{
		"--allow-tool=x.y,z.*", "--daemon-idle-timeout=1h0m0s", "--mcp-servers=" + filepath.Join(dir, "a,b.json"), "--mcp-servers=codex", "--mcp-servers=claude",
		"--memory=1536M", "--session-dir=" + filepath.Join(dir, "sessions"), "--warm=python=2", "--warm=r=1", "--warm-dir=" + dir,
	}
	if !slices.Equal(args, want) {
		t.Errorf("got %q\nwant %q", args, want)
	}
	t.Chdir(t.TempDir())
	if again := forwardFlags(t, args); !slices.Equal(again, want) {
		t.Errorf("parsed again: got %q\nwant %q", again, want)
	}
}

func forwardFlags(t *testing.T, args []string) []string {
	t.Helper()
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	NewServeCommand(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	forwarded, err := detachedArgs(f)
	if err != nil {
		t.Fatal(err)
	}
	return forwarded
}
