package python_test

import "syscall"

// Programs that run for a while, as an argument of subprocess.run and for a shell.
const (
	sleepingChild = "['sleep', '100']"
	shortCommand  = "sleep 0.1"
	longCommand   = "sleep 5"
)

// childThatSleeps prints "up" and waits for a child.
const childThatSleeps = "import subprocess; print('up', flush=True); subprocess.run(['sleep', '100'])"

// waitForDone waits for the threading.Event called done.
const waitForDone = "done.wait()"

// unbreakable is what an interrupt cannot end on this system, and why.
var unbreakable map[string]string

// strayInterrupt interrupts a worker from outside.
func strayInterrupt(pid int) error { return syscall.Kill(pid, syscall.SIGINT) }
