//go:build linux

package places

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/tests/programs"
)

// A cluster is Slurm as a place of places.toml: the job is started by the first command.
type cluster struct {
	t *testing.T
	w *way
}

// cluster writes places.toml with a place hpc, whose job has these flags of sbatch.
func newCluster(t *testing.T, wait string, flags ...string) cluster {
	t.Helper()
	e := on(t, "slurm")
	w := e.way(t)
	slurm := "env SLURM_CONF=" + e.dir + "/slurm.conf "
	script := filepath.Join(w.home, "job.sh")
	want(t, programs.Write(script, []byte("#!/bin/sh\nexec "+binary+" serve --socket "+w.home+"/s\n")))
	toml := fmt.Sprintf("[places.hpc]\nvia = %q\nstart = %q\nafter = %q\nrepl = %q\nsocket = %q\nwait = %q\n",
		"env "+markEnv+"="+w.mark+" "+slurm+"srun --overlap --jobid={job} --mem=0 -n1",
		slurm+"sbatch --parsable --output="+w.home+"/out "+strings.Join(flags, " ")+" "+script,
		slurm+"scontrol show job {job}", binary, w.home+"/s", wait)
	dir := filepath.Join(w.home, "config", "turnstone")
	want(t, os.MkdirAll(dir, 0o700))
	want(t, os.WriteFile(filepath.Join(dir, "places.toml"), []byte(toml), 0o600))
	c := cluster{t, w}
	t.Cleanup(func() {
		if job := c.job(); job != "" {
			_, _ = e.slurm("scancel", job)
		}
	})
	return c
}

// repl runs a command for the place.
func (c cluster) repl(words ...string) (out, errs string, status int) {
	c.t.Helper()
	cmd := c.w.repl(c.t, words[0])
	cmd.Args = append([]string{binary, words[0], "--place", "hpc"}, words[1:]...)
	if words[0] == "place" {
		cmd.Args = append([]string{binary}, words...)
	}
	return finish(c.t, cmd)
}

// job is the one that the place remembers.
func (c cluster) job() string {
	c.t.Helper()
	out, _, _ := c.repl("place", "list")
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "hpc" && fields[1] != "-" {
			return fields[1]
		}
	}
	return ""
}

// exec runs code in the session main there.
func (c cluster) exec(code string) (out, errs string, status int) {
	c.t.Helper()
	return c.repl("exec", "main", "--wait", "60s", "-e", code)
}

func TestSlurm_TheFirstCommandStartsTheJobAndTheNextOnesUseIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "1m", "--mem=300")
	if out, errs, status := c.exec("x = 41; x"); status != 0 || out != "41\n" {
		t.Fatalf("status %d, output %q, errors %q", status, out, errs)
	}
	job := c.job()
	if out, errs, status := c.exec("x + 1"); status != 0 || out != "42\n" || c.job() != job || job == "" {
		t.Errorf("status %d, output %q, errors %q, job %q and then %q", status, out, errs, job, c.job())
	}
	_, err := c.w.e.slurm("scancel", job)
	want(t, err)
	_, errs, status := c.exec("x + 1")
	if status == 0 || !strings.Contains(errs, "JobState=CANCELLED") {
		t.Errorf("a cancelled job: status %d, errors %q", status, errs)
	}
	if _, errs, status := c.repl("place", "forget", "hpc"); status != 0 {
		t.Errorf("forget: status %d, %s", status, errs)
	}
	if out, errs, status := c.exec("x + 1"); status == 0 || !strings.Contains(out, "NameError") || c.job() == job {
		t.Errorf("another job: status %d, output %q, errors %q, job %q", status, out, errs, c.job())
	}
}

func TestSlurm_AJobThatUsesTooMuchMemoryIsToldByItsOwnWords(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "1m", "--mem=200")
	if out, errs, status := c.exec("1"); status != 0 {
		t.Fatalf("status %d, output %q, errors %q", status, out, errs)
	}
	_, errs, status := c.exec("big = bytearray(400 * 2**20)\nimport time; time.sleep(600)")
	if status == 0 || !strings.Contains(errs, "JobState=") || strings.Contains(errs, "JobState=RUNNING") {
		t.Errorf("status %d, errors %q", status, errs)
	}
}

func TestSlurm_AJobThatWaitsForResourcesIsQuoted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "5s", "--mem=100000") // the node has no more than a part of it
	_, errs, status := c.exec("1")
	if status == 0 || !strings.Contains(errs, "memory") && !strings.Contains(errs, "Requested node configuration") {
		t.Errorf("an impossible job: status %d, errors %q", status, errs)
	}
	c = newCluster(t, "5s", "--mem=100", "--begin=now+1hour")
	_, errs, status = c.exec("1")
	if status == 0 || !strings.Contains(errs, "JobState=PENDING") {
		t.Errorf("a job that waits: status %d, errors %q", status, errs)
	}
}

func TestPodman_AContainerThatEndsIsToldInPodmansOwnWords(t *testing.T) {
	t.Parallel()
	e := on(t, "podman")
	podman, err := e.podman()
	want(t, err)
	mortal := &engine{name: "podman", program: "podman", dir: e.dir, home: e.home, words: append(append([]string(nil), podman...), "exec", "-i", "mortal")}
	w := mortal.way(t)
	want(t, mortal.container(podman, "mortal", binary, "serve", "--socket", w.home+"/s"))
	t.Cleanup(mortal.ends[0])
	w.socket = w.home + "/s"
	eventually(t, "the container's daemon is there", func() bool { _, err := os.Stat(w.socket); return err == nil })
	if out, errs, status := w.says(t, "exec", "main", "-e", "6 * 7"); status != 0 || out != "42\n" {
		t.Fatalf("status %d, output %q, errors %q", status, out, errs)
	}
	_, err = e.says(append(append([]string(nil), podman...), "kill", "mortal")...)
	want(t, err)
	_, errs, status := w.says(t, "exec", "main", "-e", "6 * 7")
	if status == 0 || !strings.Contains(errs, "container") {
		t.Errorf("status %d, errors %q", status, errs)
	}
}

func TestSlurm_AJobWhoseTimeIsOverIsToldByItsOwnWords(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "1m", "--mem=300", "--time=1")
	if out, errs, status := c.exec("x = 41; x"); status != 0 || out != "41\n" {
		t.Fatalf("status %d, output %q, errors %q", status, out, errs)
	}
	job := c.job()
	_, err := c.w.e.slurm("scontrol", "update", "JobId="+job, "EndTime=now+1") // its limit is a minute at least
	want(t, err)
	eventually(t, "the time of the job is over", func() bool {
		out, _ := c.w.e.slurm("scontrol", "show", "job", job)
		return strings.Contains(out, "JobState=TIMEOUT")
	})
	if _, errs, status := c.exec("x + 1"); status == 0 || !strings.Contains(errs, "JobState=TIMEOUT") || c.job() != job {
		t.Errorf("status %d, errors %q, job %q and then %q", status, errs, job, c.job())
	}
}

// The node is never free for this job alone, and it stands behind all others.
func TestSlurm_AFullQueueIsToldAndTheJobIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "2s", "--exclusive", "--nice=100000", "--mem=100")
	var jobs []string
	for range 2 {
		_, errs, status := c.exec("1")
		if status == 0 || !strings.Contains(errs, "JobState=PENDING") || !strings.Contains(errs, "Reason=Resources") && !strings.Contains(errs, "Reason=Priority") {
			t.Errorf("status %d, errors %q", status, errs)
		}
		jobs = append(jobs, c.job())
	}
	if jobs[0] == "" || jobs[0] != jobs[1] {
		t.Errorf("the jobs were %q", jobs)
	}
}
