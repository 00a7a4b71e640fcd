//go:build linux || darwin

package host

import (
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/outlet"
)

// A launch holds what a start needs, with or without a stage.
type launch struct {
	command             *Command
	env                 []string
	tag, nonce          string
	pty                 *ptyMaster
	channel             *Channel
	outlet              *outlet.Conn // of a sandbox, if it has one
	uncounted           string       // what the limit of memory leaves out
	slave               *os.File     // the worker's ends,
	workerIn, workerOut *os.File     // closed here once it has them
}

func start(c *Command) (*Process, error) {
	l, err := prepare(c)
	if err != nil {
		return nil, err
	}
	defer l.closeWorkerEnds()
	begin := l.direct
	if StageAvailable() {
		begin = l.staged
	}
	backend, pid, err := begin()
	if err != nil {
		l.channel.Close()
		l.pty.close()
		if l.outlet != nil {
			l.outlet.Close()
		}
		return nil, err
	}
	p := newProcess(pid, l.nonce, StageAvailable(), backend, l.channel, &Terminal{l.pty})
	p.outlet, p.uncounted = l.outlet, l.uncounted
	return p, nil
}

// prepare makes the terminal and the channel.
func prepare(c *Command) (*launch, error) {
	l := &launch{command: c, tag: randomName(), nonce: randomName()}
	l.env = without(c.Env, channelName, tagName)
	if !c.Piped {
		l.env = append(l.env, channelName+"=3,4,"+l.nonce)
	}
	l.env = append(l.env, tagName+"="+l.tag)
	var err error
	if l.pty, l.slave, err = openPTY(c.Size.orDefault(), c.Person); err != nil {
		return nil, &StartError{Step: "terminal", Err: err}
	}
	if l.channel, l.workerIn, l.workerOut, err = openChannel(); err != nil {
		l.pty.close()
		l.slave.Close()
		return nil, &StartError{Step: "channel", Err: err}
	}
	return l, nil
}

// openChannel makes two pipes: our ends, and what the other process reads and writes. os.Pipe's
// ends are nonblocking and close-on-exec; the other's become plain descriptors when they are passed.
func openChannel() (ours *Channel, theirIn, theirOut *os.File, err error) {
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	in, theirOut, err := os.Pipe()
	if err == nil {
		if ours, err = newChannel(in, out); err == nil {
			return ours, theirIn, theirOut, nil
		}
		in.Close()
		theirOut.Close()
	}
	theirIn.Close()
	out.Close()
	return nil, nil, nil, err
}

func (l *launch) closeWorkerEnds() {
	l.slave.Close()
	l.workerIn.Close()
	l.workerOut.Close()
}

// without returns a copy of env without these names.
func without(env []string, names ...string) []string {
	kept := make([]string, 0, len(env)+len(names))
next:
	for _, v := range env {
		for _, n := range names {
			if strings.HasPrefix(v, n+"=") {
				continue next
			}
		}
		kept = append(kept, v)
	}
	return kept
}
