package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// Both places have a session of the same name, so that what belongs to one cannot be found at the
// other by chance.
func TestPlaces_PicturesAndPermissionsAreThoseOfTheNamedSession(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	var toml strings.Builder
	homes, dirs := map[string]*home{}, map[string]string{}
	for _, place := range []string{"gpu", "hpc"} {
		there := daemonHome(t)
		_, all := there.besideOthers(t, "asked")
		there.serve(t)
		homes[place], dirs[place] = &there, all[0]
		fmt.Fprintf(&toml, "[places.%s]\nvia = %q\ndir = %q\n", place, wayTo(t, there), there.dir)
	}
	h.places(t, toml.String())
	h.serve(t)
	a := newAgent(t, h, "--daemon", "--places", "gpu,hpc", "--name", "bot")
	for _, place := range []string{"gpu", "hpc"} {
		a.call("repl", place+"/main", "input", "here = '"+place+"'")
	}

	kept := map[string]string{}
	for _, place := range []string{"gpu", "hpc"} {
		got := a.call("repl", place+"/main", "input", wide)
		found := regexp.MustCompile(`3000 x 4, shown smaller; whole in (\S+)\]`).FindStringSubmatch(got)
		if found == nil {
			t.Fatalf("a picture at %s: %q", place, got)
		}
		data, err := os.ReadFile(found[1])
		if err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) || !strings.HasPrefix(found[1], h.environment("XDG_STATE_HOME")) {
			t.Errorf("%s of %s has %d bytes, %v", found[1], place, len(data), err)
		}
		kept[place] = found[1]
	}
	if kept["gpu"] == kept["hpc"] {
		t.Errorf("the pictures of both are in %s", kept["gpu"])
	}

	const open = `open("../asked/x", "w").write("done")`
	for _, place := range []string{"gpu", "hpc"} {
		if got := a.call("repl", place+"/main", "input", open); !strings.Contains(got, "waiting for a permission") || !strings.Contains(got, "run this in a terminal: repl allow bot --place "+place) {
			t.Fatalf("%s: %q", place, got)
		}
	}
	p := h.start(t, "allow", "bot", "--place", "hpc")
	p.sees("Allow it to write " + timeline.QuoteName(dirs["hpc"]) + "?")
	p.types("y\r")
	p.leaves(0)
	output := func(place string) string {
		t.Helper()
		a.begin("repl_output", map[string]any{"session": place + "/main", "wait_ms": 30_000})
		return a.answer()
	}
	if got := output("hpc"); !strings.Contains(got, "4") || !exists(filepath.Join(dirs["hpc"], "x")) {
		t.Errorf("after a yes at hpc: %q", got)
	}
	if s := homes["gpu"].sessions(t)["bot"]; s.InputRequest == nil || s.InputRequest.Permission == nil {
		t.Errorf("gpu does not wait any more: %+v", s)
	}
	h.start(t, "allow", "bot", "--place", "gpu", "--no").leaves(0)
	if got := output("gpu"); !strings.Contains(got, "Read-only file system") || exists(filepath.Join(dirs["gpu"], "x")) {
		t.Errorf("after a no at gpu: %q", got)
	}
	for place, is := range map[string]bool{"gpu": false, "hpc": true} {
		if r := h.run(t, "", "sandbox", "bot", "--place", place); r.status != 0 || strings.Contains(r.stdout, "given: write "+timeline.QuoteName(dirs[place])+"\n") != is {
			t.Errorf("%s: %v", place, r)
		}
	}
	if got := a.call("repl", "gpu/main", "input", "here"); got != "'gpu'" {
		t.Errorf("got %q", got)
	}
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
