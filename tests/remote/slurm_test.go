//go:build linux

package remote

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// slurmConf is a cluster of one node, whose own daemon manages all its resources.
const slurmConf = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge.socket
SlurmctldPort=%[3]d
SlurmdPort=%[4]d
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
KillWait=5
ReturnToService=2
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=8 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=%[1]s Default=YES State=UP MaxTime=INFINITE
`

// beginSlurm starts munge and a cluster of one node, and a daemon as a batch job.
func beginSlurm(e *testEngine) error {
	key := filepath.Join(e.dir, "munge.key")
	for _, dir := range []string{"state", "spool"} {
		if err := os.MkdirAll(filepath.Join(e.dir, dir), 0o700); err != nil {
			return err
		}
	}
	if _, err := e.runOutput("dd", "if=/dev/urandom", "of="+key, "bs=1024", "count=1"); err != nil {
		return err
	}
	if err := os.Chmod(key, 0o600); err != nil {
		return err
	}
	if err := e.startServer("munged", "--foreground", "--force", "--socket="+e.dir+"/munge.socket", "--key-file="+key,
		"--pid-file="+e.dir+"/munge.pid", "--seed-file="+e.dir+"/munge.seed"); err != nil {
		return err
	}
	conf, err := e.writeSlurm()
	if err != nil {
		return err
	}
	for _, part := range []string{"slurmctld", "slurmd"} {
		if err := e.startServer("env", "SLURM_CONF="+conf, part, "-D"); err != nil {
			return err
		}
	}
	if err := waitUntil("the node is idle", func() bool {
		state, _ := e.runSlurm("sinfo", "--noheader", "--format=%t")
		return state == "idle"
	}); err != nil {
		return fmt.Errorf("%w: %s", err, e.readLogs())
	}
	e.cleanups = append(e.cleanups, func() { _, _ = e.runSlurm("scancel", "--full", "--signal=KILL", "--user=root") })
	job, err := e.submitBatch("serve", "--mem=500", "--wrap", "exec env "+strings.Join(e.environment(), " ")+" "+binary+" serve --socket "+e.socketPath()) // Slurm sets HOME
	if err != nil {
		return err
	}
	e.prefix = e.stepCommand(job)
	return e.awaitDaemon()
}

// stepCommand returns the words that run a command within a job.
func (e *testEngine) stepCommand(job string) []string {
	return append([]string{"env", "SLURM_CONF=" + e.dir + "/slurm.conf", "srun", "--overlap", "--jobid=" + job, "--mem=0", "-n1", "env", "-u", "XDG_STATE_HOME"}, e.environment()...) // srun passes the local environment on
}

// runSlurm runs one of Slurm's programs.
func (e *testEngine) runSlurm(words ...string) (string, error) {
	return e.runOutput(append([]string{"env", "SLURM_CONF=" + e.dir + "/slurm.conf"}, words...)...)
}

// submitBatch submits a job and returns its number.
func (e *testEngine) submitBatch(name string, args ...string) (string, error) {
	words := append([]string{"env", "-i", "SLURM_CONF=" + e.dir + "/slurm.conf"}, e.environment()...)
	words = append(words, "sbatch", "--parsable", "--job-name="+name, "--output="+e.dir+"/"+name+".out", "--chdir="+e.home)
	return e.runOutput(append(words, args...)...)
}

// freePort returns an unused port. It is outside the range of ephemeral ports, which another
// program could get before Slurm has opened it.
func freePort() (int, error) {
	for range 1000 {
		port := 20000 + rand.N(10000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("no port from 20000 to 29999 is free")
}

// writeSlurm writes the configuration with ports that are free now.
func (e *testEngine) writeSlurm() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	host, _, _ = strings.Cut(host, ".")
	var ports [2]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return "", err
		}
	}
	return e.writeFile("slurm.conf", 0o600, fmt.Sprintf(slurmConf, host, e.dir, ports[0], ports[1]))
}

// readLogs returns the logs of the engine's parts.
func (e *testEngine) readLogs() string {
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(e.dir, "*.log"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&all, "\n--- %s\n%s", name, text)
	}
	return all.String()
}
