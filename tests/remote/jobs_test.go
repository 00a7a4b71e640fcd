//go:build linux

package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// A testCluster is Slurm as a remote of remotes.toml: the first command starts the job.
type testCluster struct {
	t      *testing.T
	remote *testRemote
}

// newCluster writes remotes.toml with a remote hpc, whose job has these flags of sbatch.
func newCluster(t *testing.T, timeout string, flags ...string) testCluster {
	t.Helper()
	e := startEngine(t, "slurm")
	w := e.newRemote(t)
	slurm := "env SLURM_CONF=" + e.dir + "/slurm.conf "
	script := filepath.Join(w.home, "job.sh")
	wantNoError(t, testexec.WriteExecutable(script, []byte("#!/bin/sh\nexec "+binary+" serve --socket "+w.home+"/s\n")))
	toml := fmt.Sprintf("[remotes.hpc]\nvia = %q\nstart = %q\ndiagnose = %q\nrepl = %q\nsocket = %q\nconnect-timeout = %q\n",
		"env "+remoteMarkEnv+"="+w.mark+" "+slurm+"srun --overlap --jobid={job} --mem=0 -n1",
		slurm+"sbatch --parsable --output="+w.home+"/out "+strings.Join(flags, " ")+" "+script,
		slurm+"scontrol show job {job}", binary, w.home+"/s", timeout)
	dir := filepath.Join(w.home, "config", "turnstone")
	wantNoError(t, os.MkdirAll(dir, 0o700))
	wantNoError(t, os.WriteFile(filepath.Join(dir, "remotes.toml"), []byte(toml), 0o600))
	c := testCluster{t, w}
	t.Cleanup(func() {
		if job := c.savedJob(); job != "" {
			_, _ = e.runSlurm("scancel", job)
		}
	})
	return c
}

// runRepl runs a command for the remote.
func (c testCluster) runRepl(words ...string) (out, errs string, status int) {
	c.t.Helper()
	cmd := c.remote.replCommand(c.t, words[0])
	cmd.Args = append([]string{binary, words[0], "--remote", "hpc"}, words[1:]...)
	if words[0] == "remote" {
		cmd.Args = append([]string{binary}, words...)
	}
	return runToEnd(c.t, cmd)
}

// savedJob returns the job that the remote's state records.
func (c testCluster) savedJob() string {
	c.t.Helper()
	out, _, _ := c.runRepl("remote", "list")
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "hpc" && fields[1] != "-" {
			return fields[1]
		}
	}
	return ""
}

// execCode runs code in the session main on the remote.
func (c testCluster) execCode(code string) (out, errs string, status int) {
	c.t.Helper()
	return c.runRepl("exec", "main", "--wait", "60s", "-e", code)
}

func TestJobs(t *testing.T) {
	t.Parallel()

	t.Run("starts a Slurm job once and reuses it", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "1m", "--mem=300")
		if out, errs, status := c.execCode("x = 41; x"); status != 0 || out != "41\n" {
			t.Fatalf("status %d, output %q, errors %q", status, out, errs)
		}
		job := c.savedJob()
		if out, errs, status := c.execCode("x + 1"); status != 0 || out != "42\n" || c.savedJob() != job || job == "" {
			t.Errorf("status %d, output %q, errors %q, job %q and then %q", status, out, errs, job, c.savedJob())
		}
		_, err := c.remote.engine.runSlurm("scancel", job)
		wantNoError(t, err)
		_, errs, status := c.execCode("x + 1")
		if status == 0 || !strings.Contains(errs, "JobState=CANCELLED") {
			t.Errorf("cancelled job: status %d, errors %q", status, errs)
		}
		if _, errs, status := c.runRepl("remote", "forget", "hpc"); status != 0 {
			t.Errorf("forget: status %d, %s", status, errs)
		}
		if out, errs, status := c.execCode("x + 1"); status == 0 || !strings.Contains(out, "NameError") || c.savedJob() == job {
			t.Errorf("another job: status %d, output %q, errors %q, job %q", status, out, errs, c.savedJob())
		}
	})

	t.Run("quotes Slurm when a job exceeds its memory", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "1m", "--mem=200")
		if out, errs, status := c.execCode("1"); status != 0 {
			t.Fatalf("status %d, output %q, errors %q", status, out, errs)
		}
		// If the job were killed within the first call of the command, that call alone would fail.
		_, errs, status := c.execCode("import time; time.sleep(2)\nbig = bytearray(400 * 2**20)\ntime.sleep(600)")
		if status == 0 || !strings.Contains(errs, "JobState=") || strings.Contains(errs, "JobState=RUNNING") {
			t.Errorf("status %d, errors %q", status, errs)
		}
	})

	t.Run("quotes Slurm when a job waits for resources", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "5s", "--mem=100000") // the node has less memory
		_, errs, status := c.execCode("1")
		if status == 0 || !strings.Contains(errs, "memory") && !strings.Contains(errs, "Requested node configuration") {
			t.Errorf("impossible job: status %d, errors %q", status, errs)
		}
		c = newCluster(t, "5s", "--mem=100", "--begin=now+1hour")
		_, errs, status = c.execCode("1")
		if status == 0 || !strings.Contains(errs, "JobState=PENDING") {
			t.Errorf("queued job: status %d, errors %q", status, errs)
		}
	})

	t.Run("quotes Podman when a container ends", func(t *testing.T) {
		t.Parallel()
		e := startEngine(t, "podman")
		podman, err := e.podmanCommand()
		wantNoError(t, err)
		mortal := &testEngine{name: "podman", prefixProgram: "podman", dir: e.dir, home: e.home, prefix: append(append([]string(nil), podman...), "exec", "-i", "mortal")}
		w := mortal.newRemote(t)
		wantNoError(t, mortal.startContainer(podman, "mortal", binary, "serve", "--socket", w.home+"/s"))
		t.Cleanup(mortal.cleanups[0])
		w.socket = w.home + "/s"
		wait.Until(t, "the daemon of the container answers", func() bool { _, err := os.Stat(w.socket); return err == nil })
		if out, errs, status := w.runRepl(t, "exec", "main", "-e", "6 * 7"); status != 0 || out != "42\n" {
			t.Fatalf("status %d, output %q, errors %q", status, out, errs)
		}
		_, err = e.runOutput(append(append([]string(nil), podman...), "kill", "mortal")...)
		wantNoError(t, err)
		_, errs, status := w.runRepl(t, "exec", "main", "-e", "6 * 7")
		if status == 0 || !strings.Contains(errs, "container") {
			t.Errorf("status %d, errors %q", status, errs)
		}
	})

	t.Run("quotes Slurm when a job reaches its time limit", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "1m", "--mem=300", "--time=1")
		if out, errs, status := c.execCode("x = 41; x"); status != 0 || out != "41\n" {
			t.Fatalf("status %d, output %q, errors %q", status, out, errs)
		}
		job := c.savedJob()
		_, err := c.remote.engine.runSlurm("scontrol", "update", "JobId="+job, "EndTime=now+1") // the shortest time limit of a job is a minute
		wantNoError(t, err)
		wait.Until(t, "the job has reached its time limit", func() bool {
			out, _ := c.remote.engine.runSlurm("scontrol", "show", "job", job)
			return strings.Contains(out, "JobState=TIMEOUT")
		})
		if _, errs, status := c.execCode("x + 1"); status == 0 || !strings.Contains(errs, "JobState=TIMEOUT") || c.savedJob() != job {
			t.Errorf("status %d, errors %q, job %q and then %q", status, errs, job, c.savedJob())
		}
	})

	// The node is never free for this job, which is behind all others in the queue.
	t.Run("reports a full queue without starting the job again", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "2s", "--exclusive", "--nice=100000", "--mem=100")
		var jobs []string
		for range 2 {
			_, errs, status := c.execCode("1")
			if status == 0 || !strings.Contains(errs, "JobState=PENDING") || !strings.Contains(errs, "Reason=Resources") && !strings.Contains(errs, "Reason=Priority") {
				t.Errorf("status %d, errors %q", status, errs)
			}
			jobs = append(jobs, c.savedJob())
		}
		if jobs[0] == "" || jobs[0] != jobs[1] {
			t.Errorf("the jobs were %q", jobs)
		}
	})
}
