//go:build linux || darwin

package launch

import "github.com/turnstone-repl/turnstone/supervisor/internal/pty"

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
