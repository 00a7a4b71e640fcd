package limits

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

const diskLimit = 32 << 20

// fillCode writes megabytes into a directory, in files of ten, until that fails.
const fillCode = `
import os, shutil
def fill(where):
    os.makedirs(where, exist_ok=True)
    n = 0
    try:
        for i in range(20):
            with open(os.path.join(where, "f%d" % i), "wb", 0) as f:
                for _ in range(10): f.write(b"x" * (1 << 20)); n += 1
    except OSError as e: return e.strerror if n < 33 else n
    finally: shutil.rmtree(where)
    return n
`

func newSandbox() *sandbox.Policy {
	return &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}
}

func TestDiskLimit(t *testing.T) {
	t.Parallel()

	// All directories in which a session stores files are bounded, including those of tools. The
	// only effect is an error of the language.
	t.Run("bounds all files of a session together", func(t *testing.T) {
		t.Parallel()
		box, cache := newSandbox(), sandboxcheck.TempDir(t)
		sandboxcheck.RequireLayers(t, cache)
		box.Layered = []string{cache}
		s := openPython(t, box, workers.Limits{Disk: diskLimit})
		s.RunCode(t, fillCode+"x = 41").WantTranscript(t, "")
		for _, where := range []string{"'/tmp/a'", "'/var/tmp/a'", "'" + cache + "/a'", "os.environ.get('XDG_CACHE_HOME', '/tmp') + '/b'", "os.environ.get('R_LIBS_USER', '/tmp') + '/c'", "'/dev/shm/a'"} {
			s.RunCode(t, "fill("+where+")").WantTranscript(t, "'No space left on device'\n")
		}
		// The limit is for all together, not for each.
		s.RunCode(t, "open('/tmp/half', 'wb', 0).write(b'x' * (20 << 20))").WantTranscript(t, "20971520\n")
		s.RunCode(t, "open('/var/tmp/half', 'wb', 0).write(b'x' * (20 << 20)) <= 12 << 20").WantTranscript(t, "True\n")
		s.RunCode(t, "x + 1").WantTranscript(t, "42\n")
	})

	t.Run("bounds each file of the workspace", func(t *testing.T) {
		t.Parallel()
		t.Run("python", func(t *testing.T) {
			s := openPython(t, newSandbox(), workers.Limits{Disk: diskLimit})
			if r := s.RunCode(t, "with open('big', 'wb') as f:\n  for _ in range(40): f.write(b'x' * (1 << 20))"); r.Failure != "OSError" || !strings.Contains(r.Transcript(), "File too large") {
				t.Errorf("got %q %q", r.Outcome, r.Transcript())
			}
			s.RunCode(t, "__import__('os').path.getsize('big') == 32 << 20").WantTranscript(t, "True\n")
		})
		t.Run("R", func(t *testing.T) {
			s := openR(t, newSandbox(), workers.Limits{Disk: diskLimit})
			s.RunCode(t, "x <- 41; f <- file('big', 'wb'); for (i in 1:40) try(writeBin(raw(1e6), f), silent = TRUE); invisible(try(close(f), silent = TRUE))")
			s.RunCode(t, "cat(x + 1, file.size('big') <= 2^25, '\\n')").WantTranscript(t, "42 TRUE \n")
		})
	})

	// Files in shared memory that no process maps are not part of any process's memory.
	t.Run("bounds shared memory by the memory limit", func(t *testing.T) {
		t.Parallel()
		s := openPython(t, newSandbox(), workers.Limits{Memory: memoryLimit})
		s.RunCode(t, "import os; v = os.statvfs('/dev/shm'); v.f_blocks * v.f_frsize >> 20 in (288, 192)").WantTranscript(t, "True\n") // 192 in a control group, where it counts
	})

	t.Run("is refused without a sandbox", func(t *testing.T) {
		t.Parallel()
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		spec := python.Spec(python.Options{Path: "/usr/bin/python3"})
		spec.Limits = workers.Limits{Disk: diskLimit}
		if _, err = sup.Open(t.Context(), "main", spec); err == nil || !strings.Contains(err.Error(), "leave the limit out") {
			t.Errorf("got %v, want an error with advice", err)
		}
	})
}
