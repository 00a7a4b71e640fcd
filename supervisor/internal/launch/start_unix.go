//go:build linux || darwin

package launch

import (
	"os"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

// A workerLaunch collects what a start needs, with or without a monitor.
type workerLaunch struct {
	command             *StartConfig
	env                 []string
	tag, nonce          string
	pty                 *pty.Master
	channel             *Channel
	egressConn          *egressipc.Conn // of a sandbox, if it has one
	uncountedMemory     string          // what the memory limit does not count
	slave               *os.File        // the worker's ends,
	workerIn, workerOut *os.File        // closed here once the worker has them
}

func start(c *StartConfig) (*WorkerProcess, error) {
	l, err := prepareStart(c)
	if err != nil {
		return nil, err
	}
	defer l.closeWorkerEnds()
	launch := l.startUnmonitored
	if IsMonitorAvailable() {
		launch = l.startMonitored
	}
	backend, pid, err := launch()
	if err != nil {
		l.channel.Close()
		l.pty.Close()
		if l.egressConn != nil {
			l.egressConn.Close()
		}
		return nil, err
	}
	p := newProcess(pid, l.nonce, IsMonitorAvailable(), backend, l.channel, pty.NewTerminal(l.pty))
	p.egressConn, p.uncountedMemory = l.egressConn, l.uncountedMemory
	return p, nil
}

// prepareStart creates the terminal and the channel.
func prepareStart(c *StartConfig) (*workerLaunch, error) {
	l := &workerLaunch{command: c, tag: randomHex(), nonce: randomHex()}
	l.env = environ.Without(c.Env, monitorproto.ChannelVariable, proctree.TagVariable)
	if !c.ChannelOnStdio {
		l.env = append(l.env, monitorproto.ChannelVariable+"=3,4,"+l.nonce)
	}
	l.env = append(l.env, proctree.TagVariable+"="+l.tag)
	var err error
	if l.pty, l.slave, err = pty.OpenMaster(c.Size.OrDefault(), c.Interactive); err != nil {
		return nil, &monitorproto.StartError{Step: "terminal", Err: err}
	}
	if l.channel, l.workerIn, l.workerOut, err = openChannel(); err != nil {
		l.pty.Close()
		l.slave.Close()
		return nil, &monitorproto.StartError{Step: "channel", Err: err}
	}
	return l, nil
}

// openChannel creates two pipes: our ends, and the ends that the other process reads and writes.
// os.Pipe's ends are nonblocking and close-on-exec; those of the other process become plain
// descriptors when they are passed.
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

func (l *workerLaunch) closeWorkerEnds() {
	l.slave.Close()
	l.workerIn.Close()
	l.workerOut.Close()
}
