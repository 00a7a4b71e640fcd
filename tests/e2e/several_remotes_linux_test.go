package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// Both remotes have a session of the same name, so that the test notices data of one at the other.
func TestRemotes_ImagesAndPermissions(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	var toml strings.Builder
	homes, dirs := map[string]*home{}, map[string]string{}
	for _, place := range []string{"gpu", "hpc"} {
		there := newDaemonHome(t)
		_, all := there.withOutsideDirs(t, "asked")
		there.startDaemon(t)
		homes[place], dirs[place] = &there, all[0]
		fmt.Fprintf(&toml, "[remotes.%s]\nvia = %q\ndir = %q\n", place, newRemoteCommand(t, there), there.dir)
	}
	h.writeRemotesFile(t, toml.String())
	h.startDaemon(t)
	a := newAgent(t, h, "--daemon", "--remotes", "gpu,hpc", "--name", "bot")
	for _, place := range []string{"gpu", "hpc"} {
		a.callTool("repl", place+"/main", "input", "here = '"+place+"'")
	}

	kept := map[string]string{}
	for _, place := range []string{"gpu", "hpc"} {
		got := a.callTool("repl", place+"/main", "input", wideImageCode)
		found := regexp.MustCompile(`3000 x 4, shown smaller; original in (\S+)\]`).FindStringSubmatch(got)
		if found == nil {
			t.Fatalf("an image at %s: %q", place, got)
		}
		data, err := os.ReadFile(found[1])
		if err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) || !strings.HasPrefix(found[1], h.envValue("XDG_STATE_HOME")) {
			t.Errorf("%s of %s has %d bytes, %v", found[1], place, len(data), err)
		}
		kept[place] = found[1]
	}
	if kept["gpu"] == kept["hpc"] {
		t.Errorf("the images of both are in %s", kept["gpu"])
	}

	const open = `open("../asked/x", "w").write("done")`
	for _, place := range []string{"gpu", "hpc"} {
		if got := a.callTool("repl", place+"/main", "input", open); !strings.Contains(got, "waiting for a permission") || !strings.Contains(got, "run this in a terminal: repl grant bot --remote "+place) {
			t.Fatalf("%s: %q", place, got)
		}
	}
	p := h.startTerminal(t, "grant", "bot", "--remote", "hpc")
	p.waitText("Allow it to write " + text.QuoteName(dirs["hpc"]) + "?")
	p.typeKeys("y\r")
	p.waitExit(0)
	output := func(place string) string {
		t.Helper()
		a.startCall("repl_output", map[string]any{"session": place + "/main", "wait_ms": 30_000})
		return a.readAnswer()
	}
	if got := output("hpc"); !strings.Contains(got, "4") || !fileExists(filepath.Join(dirs["hpc"], "x")) {
		t.Errorf("after a yes at hpc: %q", got)
	}
	if s := homes["gpu"].listSessions(t)["bot"]; s.InputRequest == nil || s.InputRequest.Permission == nil {
		t.Errorf("gpu no longer waits: %+v", s)
	}
	h.startTerminal(t, "grant", "bot", "--remote", "gpu", "--deny").waitExit(0)
	if got := output("gpu"); !strings.Contains(got, "Read-only file system") || fileExists(filepath.Join(dirs["gpu"], "x")) {
		t.Errorf("after a no at gpu: %q", got)
	}
	for place, is := range map[string]bool{"gpu": false, "hpc": true} {
		if r := h.runRepl(t, "", "sandbox", "bot", "--remote", place); r.status != 0 || strings.Contains(r.stdout, "granted: write "+text.QuoteName(dirs[place])+"\n") != is {
			t.Errorf("%s: %v", place, r)
		}
	}
	if got := a.callTool("repl", "gpu/main", "input", "here"); got != "'gpu'" {
		t.Errorf("got %q", got)
	}
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
