package conn

import "time"

// A DaemonInstance is one run of a daemon.
type DaemonInstance struct {
	PID     int
	Started time.Time
}

// IsSame reports whether both are the same run.
func (i DaemonInstance) IsSame(o DaemonInstance) bool {
	return i.PID == o.PID && i.Started.Equal(o.Started)
}

// A DaemonGreeting identifies the daemon at the other end. It comes from the daemon itself, or from the transport that
// leads to it.
type DaemonGreeting struct {
	Version  string    `json:"version"`
	Protocol int       `json:"protocol"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Known    bool      `json:"known"` // the daemon knows the client, which keeps its state
}

func (g *DaemonGreeting) instance() DaemonInstance {
	return DaemonInstance{PID: g.PID, Started: g.Started}
}
