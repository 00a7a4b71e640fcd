package monitorproto

import "errors"

// ErrEnded is returned for a signal or a command to a worker that has ended.
var ErrEnded = errors.New("monitorproto: the worker has ended")

// A Signal identifies one of the signals that can be sent to a worker.
type Signal uint8

const (
	Interrupt Signal = iota // SIGINT
	Hangup                  // SIGHUP
	Terminate               // SIGTERM
	Kill                    // SIGKILL
)

// String returns the name of the signal on Unix, such as "SIGINT".
func (s Signal) String() string {
	return [...]string{"SIGINT", "SIGHUP", "SIGTERM", "SIGKILL"}[s]
}

// A Target selects the processes that get a signal.
type Target uint8

const (
	Worker     Target = iota // the worker's process
	Group                    // the worker's process group
	Foreground               // the terminal's foreground group, if it is neither the worker's nor the monitor's
)

// String returns the name of the target for logs.
func (t Target) String() string {
	return [...]string{"worker", "group", "foreground"}[t]
}
