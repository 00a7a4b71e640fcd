package userconfig_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/internal/securefile"
)

func writeRemotesFile(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "private")
	if err := securefile.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	f, err := securefile.CreateTemp(dir, "remotes-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestReadRemotes(t *testing.T) {
	t.Parallel()

	t.Run("reads every setting", func(t *testing.T) {
		t.Parallel()
		all, err := userconfig.ReadRemotes(writeRemotesFile(t, `
[remotes.gpu]
via = "ssh gpu1"
[remotes.hpc]
via = "srun --jobid={job} -n1"
start = "sbatch --parsable hpc.sh {repl} {socket}"
diagnose = "scontrol show job {job}"
repl = "/opt/repl"
socket = "/scratch/s"
connect-timeout = "10m"
login-env = true
`))
		if err != nil {
			t.Fatal(err)
		}
		gpu, hpc := all["gpu"], all["hpc"]
		if len(all) != 2 || !slices.Equal(gpu.Prefix, []string{"ssh", "gpu1"}) || gpu.NeedsJob() {
			t.Errorf("got %+v", all)
		}
		if hpc.Timeout != 10*time.Minute || !hpc.Login || !hpc.NeedsJob() {
			t.Errorf("got %+v", hpc)
		}
		if got := hpc.FillWords(hpc.Prefix, "17"); !slices.Equal(got, []string{"srun", "--jobid=17", "-n1"}) {
			t.Errorf("got %q", got)
		}
		if got := hpc.FillWords(hpc.StartWords, ""); !slices.Equal(got, []string{"sbatch", "--parsable", "hpc.sh", "/opt/repl", "/scratch/s"}) {
			t.Errorf("got %q", got)
		}
		if all, err := userconfig.ReadRemotes(filepath.Join(t.TempDir(), "none")); len(all) != 0 || err != nil {
			t.Errorf("without a file: %v, %v", all, err)
		}
	})

	t.Run("names the line of an error and suggests a setting", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"[remotes.a]\nvia = \"ssh a\"\nscoket = \"/x\"":            `line 3: unknown setting "remotes.a.scoket"; did you mean "socket"?`,
			"[remotes.a]\nvia = \"ssh a\"\ncolour = 1":                 "a remote has via, repl, socket",
			"\n[remotes.a]\nrepl = \"x\"":                              "line 2: a lacks via",
			"[remotes.a]\nvia = \"ssh $HOST\"":                         "no shell reads this",
			"[remotes.a]\nvia = \"ssh 'a\"":                            "a quote is not closed",
			"[remotes.a]\nvia = \"ssh a\"\nrepl = \"/a b\"":            "letters, digits and _ . / = -",
			"[remotes.a]\nvia = \"ssh a\"\nsocket = \"$HOME/x\"":       "letters, digits and _ . / = -",
			"[remotes.a]\nvia = \"ssh a\"\nconnect-timeout = \"long\"": "use a time from 1s to 24h",
			"[remotes.a]\nvia = \"ssh a\"\ndir = \"work\"":             "absolute path",
			"[remotes.a]\nvia = \"ssh {job}\"":                         "add start, the command that prints it",
			"[remotes.a]\nvia = \"ssh a\"\nstart = \"x\"":              "put {job} where it belongs",
			"[remotes.a]\nvia = \"ssh {job}\"\nstart = \"x {job}\"":    "{job} has no meaning here",
			"[remotes.a]\nvia = \"ssh {job}\"\nstart = \"x {socket}\"": "add socket",
			"[remotes.here]\nvia = \"ssh a\"":                          "reserved for this machine",
			"[remotes.\"a b\"]\nvia = \"ssh a\"":                       "invalid remote name",
			"[remotes.a]\nvia = 3":                                     "line 2",
		} {
			if _, err := userconfig.ReadRemotes(writeRemotesFile(t, text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\ngot %v, want %s", text, err, want)
			}
		}
	})

	t.Run("keeps the state of a remote until it is removed", func(t *testing.T) {
		t.Parallel()
		state := filepath.Join(t.TempDir(), "state")
		if r, err := userconfig.ReadRemoteState(state, "hpc"); r != (userconfig.RemoteState{}) || err != nil {
			t.Errorf("before: %+v, %v", r, err)
		}
		for _, job := range []string{"17", "18"} {
			if err := userconfig.WriteRemoteState(state, "hpc", userconfig.RemoteState{Job: job}); err != nil {
				t.Fatal(err)
			}
			if r, err := userconfig.ReadRemoteState(state, "hpc"); r.Job != job || err != nil {
				t.Errorf("got %+v, %v", r, err)
			}
		}
		if files, err := os.ReadDir(filepath.Join(state, "remotes")); len(files) != 1 || err != nil {
			t.Errorf("there are %v, %v", files, err)
		}
		for _, want := range []bool{true, false} {
			if was, err := userconfig.RemoveRemoteState(state, "hpc"); was != want || err != nil {
				t.Errorf("got %t, %v", was, err)
			}
		}
	})
}
