package limits

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// manyProcessorsLibrary is a library that makes OpenBLAS see 16 processors.
const manyProcessorsLibrary = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
enum { many = 16 };
int get_nprocs(void) { return many; }
int get_nprocs_conf(void) { return many; }
long sysconf(int name) {
	if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return many;
	return ((long (*)(int))dlsym(RTLD_NEXT, "sysconf"))(name);
}
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
	memset(set, 0, size);
	for (int i = 0; i < many; i++) CPU_SET_S(i, size, set);
	return 0;
}
`

// openWithManyProcessors opens a session on a machine that seems to have 16 processors.
func openWithManyProcessors(t *testing.T, spec workers.Spec) *sessionkit.TestSession {
	t.Helper()
	if runtime.NumCPU() == 1 {
		t.Skip("this machine has only one processor")
	}
	source, library := filepath.Join(t.TempDir(), "many.c"), filepath.Join(t.TempDir(), "many.so")
	if err := os.WriteFile(source, []byte(manyProcessorsLibrary), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		t.Skipf("no C compiler: apt-get install gcc (%v: %s)", err, out)
	}
	spec.Env = append(spec.Env, "LD_PRELOAD="+library)
	return openSession(t, spec, nil, workers.Limits{Memory: 512 << 20})
}

// OpenBLAS reserves about 140 MB for each processor. With 16, R did not start within 1 GiB, or had
// nothing left of 2 GiB, and Python ended while it imported NumPy.
func TestMemoryLimit_ManyProcessors(t *testing.T) {
	t.Run("R", func(t *testing.T) {
		spec := r.Spec(r.Options{})
		if spec.Err != nil {
			t.Skip(spec.Err)
		}
		s := openWithManyProcessors(t, spec)
		s.RunCode(t, "x <- matrix(1, 1500, 1500); cat(any(grepl('many.so', readLines('/proc/self/maps'))), sum(x %*% x), '\\n')").WantTranscript(t, "TRUE 3.375e+09 \n")
	})
	t.Run("NumPy", func(t *testing.T) {
		path := os.Getenv("TURNSTONE_TEST_MATPLOTLIB")
		if path == "" {
			t.Skip("set TURNSTONE_TEST_MATPLOTLIB to an interpreter with NumPy")
		}
		s := openWithManyProcessors(t, python.Spec(python.Options{Path: path}))
		s.RunCode(t, "import os, numpy as np\nx = np.ones((1500, 1500))\nprint(os.cpu_count(), (x @ x).sum())").WantTranscript(t, "16 3375000000.0\n")
	})
}
