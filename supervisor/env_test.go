package supervisor

import (
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/environ"
)

func TestWorkerEnv(t *testing.T) {
	for _, c := range []struct {
		name                string
		base, scrub, change []string
		fold                bool
		want                []string
	}{
		{"changes are applied in order",
			[]string{"A=1", "B=2"}, nil, []string{"A=3", "C=4", "B", "C=5"}, false,
			[]string{"A=3", "C=5"}},
		{"a removed name can be set again",
			[]string{"A=1"}, nil, []string{"A", "A=2"}, false, []string{"A=2"}},
		{"secrets are scrubbed by name and by prefix",
			[]string{"TOKEN=x", "CLAUDE_CODE_A=y", "CLAUDE=z", "TOKENS=w"}, []string{"TOKEN", "CLAUDE_CODE_*"}, nil, false,
			[]string{"CLAUDE=z", "TOKENS=w"}},
		{"a name that the caller sets is not scrubbed",
			[]string{"TOKEN=x"}, []string{"TOKEN"}, []string{"TOKEN=mine"}, false, []string{"TOKEN=mine"}},
		{"the last of a repeated name counts",
			[]string{"A=1", "A=2"}, nil, nil, false, []string{"A=2"}},
		{"names that differ in case are distinct",
			[]string{"Path=1"}, nil, []string{"PATH=2"}, false, []string{"Path=1", "PATH=2"}},
		{"on Windows case is ignored and the last spelling stays",
			[]string{"Path=1", "path=2", "TMP=3"}, []string{}, []string{"PATH=4", "tmp"}, true, []string{"PATH=4"}},
		{"drive directories of Windows are kept",
			[]string{"=C:=C:\\x", "A=1"}, nil, nil, true, []string{"=C:=C:\\x", "A=1"}},
		{"an entry without a name is dropped",
			[]string{"junk", "A="}, nil, nil, false, []string{"A="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := workerEnv(c.base, c.scrub, c.change, c.fold); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A sandbox that hid the keys of another home directory than the worker's would hide nothing.
func TestEnvValue_LastOneWins(t *testing.T) {
	env := []string{"HOME=/first", "HOME=/last"}
	if got := environ.Get(env, "HOME"); got != "/last" || !slices.Contains(workerEnv(env, nil, nil, false), "HOME="+got) {
		t.Errorf("got %q", got)
	}
}

func TestOpenBLASEnv(t *testing.T) {
	for _, c := range []struct {
		name       string
		env        []string
		memory     int64
		processors int
		want       []string
	}{
		{"without a limit the library chooses", nil, 0, 64, nil},
		{"a small limit allows one thread", nil, 512 << 20, 2, []string{"OPENBLAS_NUM_THREADS=1"}},
		{"a larger limit allows some threads", nil, 4 << 30, 32, []string{"OPENBLAS_NUM_THREADS=8"}},
		{"a large limit sets no bound", nil, 4 << 30, 4, nil},
		{"the daemon's default limit sets no bound", nil, 12 << 30, 16, nil},
		{"the user has chosen", []string{"OPENBLAS_NUM_THREADS=8"}, 512 << 20, 32, nil},
		{"the user has chosen nothing", []string{"OPENBLAS_NUM_THREADS="}, 512 << 20, 32, nil},
		{"the user has chosen, on Windows", []string{"openblas_num_threads=8"}, 512 << 20, 32, nil},
		{"the user has chosen for OpenMP, too", []string{"OMP_NUM_THREADS=8"}, 512 << 20, 32, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := openBLASEnv(c.env, c.memory, c.processors); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
