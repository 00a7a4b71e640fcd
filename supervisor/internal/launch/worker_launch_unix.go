//go:build linux || darwin

package launch

import (
	"errors"
	"io/fs"
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

func (l *workerLaunch) closeWorkerEnds() {
	l.slave.Close()
	l.workerIn.Close()
	l.workerOut.Close()
}

// unwrapPathError removes the path from err, because a StartError already has it.
func unwrapPathError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
