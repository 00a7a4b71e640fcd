package launch

import "os"

// A childProcess is a process that was started by this one.
type childProcess struct{ *os.Process }

func startChild(path string, args []string, attr *os.ProcAttr) (childProcess, error) {
	p, err := os.StartProcess(path, args, attr)
	return childProcess{p}, err
}

func (c childProcess) pid() int { return c.Pid }
func (c childProcess) kill()    { _ = c.Kill() }
func (c childProcess) wait()    { _, _ = c.Wait() }
