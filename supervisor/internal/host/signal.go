package host

// Signal is what can be sent to a worker.
type Signal uint8

const (
	Interrupt Signal = iota // SIGINT
	Hangup                  // SIGHUP
	Terminate               // SIGTERM
	Kill                    // SIGKILL
)

func (s Signal) String() string {
	return [...]string{"SIGINT", "SIGHUP", "SIGTERM", "SIGKILL"}[s]
}

// Target is who gets a signal.
type Target uint8

const (
	Worker     Target = iota // the worker's process
	Group                    // the worker's process group
	Foreground               // the terminal's foreground group, if it is neither the worker's nor the stage's
)

func (t Target) String() string {
	return [...]string{"worker", "group", "foreground"}[t]
}
