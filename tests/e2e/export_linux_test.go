package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// shownImages is how many images of a megabyte a session shows, in turns of 15. Only 20 are
	// different, so that the session's files hold all of them.
	shownImages = 75

	// maxExportMemoryMiB bounds the memory of a program that writes such a session. The code and
	// the Go runtime take 30 MiB, a turn with its text 16 MiB, and a display on its way into the
	// file several times its size. All images together exceed the bound.
	maxExportMemoryMiB = 100
)

// showImages creates a session with large images.
func (h home) showImages(t *testing.T, name string) {
	t.Helper()
	h.runRepl(t, "", "exec", name, "-e", "import random\nr = random.Random(1)\npictures = [b'\\x89PNG\\r\\n\\x1a\\n' + r.randbytes(1 << 20) for _ in range(20)]")
	for i := range shownImages / 15 {
		code := "# " + strings.Repeat("a long line ", 100) + fmt.Sprintf("\nfor i in range(15): display({'image/png': pictures[(%d + i) %% 20], 'text/plain': 'a picture of ' + str(i)}, raw=True)", i)
		if r := h.runRepl(t, "", "exec", name, "-e", code); r.status != 0 {
			t.Fatal(r)
		}
	}
}

var peakPattern = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// measureMemory runs a command. It returns the bytes written, how often they contain a text, and
// the peak memory in MiB.
func measureMemory(t *testing.T, cmd *exec.Cmd, text string) (written int64, found, peak int) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	const room = 4 << 10
	if _, err := unix.FcntlInt(out.Fd(), unix.F_SETPIPE_SZ, room); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	cmd.Stdout, cmd.Stderr = in, &told
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	status := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status")
	rest, part := "", make([]byte, 1<<20)
	for err == nil {
		into := part
		if written == 0 {
			into = part[:1] // one byte, so that the pipe stays full
		}
		var n int
		n, err = io.ReadAtLeast(out, into, min(1+int(written), len(into)))
		written += int64(n)
		rest += string(part[:n])
		found += strings.Count(rest, text)
		rest = rest[max(0, len(rest)-len(text)+1):]
		now, _ := os.ReadFile(status) // it has not exited, because more data waits than the pipe holds
		if m := peakPattern.FindSubmatch(now); m != nil {
			kb, _ := strconv.Atoi(string(m[1]))
			peak = max(peak, kb>>10)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v, %s", cmd.Args, err, told.String())
	}
	return written, found, peak
}

func TestExport_LargeImagesLittleMemory(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	daemon := h.startDaemon(t)
	h.showImages(t, "main")
	check := func(text string, least int64, pictures int, args ...string) {
		t.Helper()
		written, found, peak := measureMemory(t, h.command(t, args...), text)
		t.Logf("%q: %d bytes, %d MiB of memory", args, written, peak)
		if peak == 0 || peak > maxExportMemoryMiB {
			t.Errorf("%q took %d MiB of memory, more than %d", args, peak, maxExportMemoryMiB)
		}
		if written < least || found != pictures {
			t.Errorf("%q: %d bytes with %d times %q, want %d and %d", args, written, found, text, least, pictures)
		}
	}
	check(`"image/png":"iVBORw0KGg`, shownImages<<20*4/3, shownImages, "export", "main", "--format", "ipynb")
	check("[image: ", 0, shownImages, "export", "main", "--format", "txt")
	check("for i in range(15)", 0, shownImages/15, "export", "main")
	h.runRepl(t, "", "exec", "main", "-e", "1 # the last input")
	h.waitSaved(t, "the last input")
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	check(`"image/png":"iVBORw0KGg`, shownImages<<20*4/3, shownImages, "recover", "main", "--format", "notebook")
}
