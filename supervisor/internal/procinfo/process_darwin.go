package procinfo

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// zombieState is SZOMB of <sys/proc.h>.
const zombieState = 5

// ListProcesses returns the system's process table, or nil if it cannot be read.
func ListProcesses() []ProcessRow {
	rows, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	table := make([]ProcessRow, 0, len(rows))
	for _, r := range rows {
		pid := int(r.Proc.P_pid)
		session, err := unix.Getsid(pid)
		if err != nil {
			session = -1
		}
		table = append(table, ProcessRow{
			PID:     pid,
			Parent:  int(r.Eproc.Ppid),
			Group:   int(r.Eproc.Pgid),
			Session: session,
			Zombie:  r.Proc.P_stat == zombieState,
		})
	}
	return table
}

// HasEnvironment reports whether a process was started with this variable. The system
// shows it only for unprotected processes of the same user.
func HasEnvironment(pid int, variable string) bool {
	args, err := unix.SysctlRaw("kern.procargs2", pid)
	return err == nil && bytes.Contains(args, []byte("\x00"+variable+"\x00"))
}
