package host

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// visitMembers visits the members of the tree that the process table shows. That is best
// effort, since orphans go to launchd.
func (t processTree) visitMembers(visit func(pid, group int)) { t.visitTable(visit) }

func (t processTree) residentMemory() int64 { return 0 }

// zombieState is SZOMB of <sys/proc.h>.
const zombieState = 5

func processTable() []processRow {
	rows, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	table := make([]processRow, 0, len(rows))
	for _, r := range rows {
		pid := int(r.Proc.P_pid)
		session, err := unix.Getsid(pid)
		if err != nil {
			session = -1
		}
		table = append(table, processRow{
			pid:     pid,
			parent:  int(r.Eproc.Ppid),
			group:   int(r.Eproc.Pgid),
			session: session,
			zombie:  r.Proc.P_stat == zombieState,
		})
	}
	return table
}

// hasEnvironment reports whether a process was started with this variable. The system
// shows it only for unprotected processes of the same user.
func hasEnvironment(pid int, variable string) bool {
	args, err := unix.SysctlRaw("kern.procargs2", pid)
	return err == nil && bytes.Contains(args, []byte("\x00"+variable+"\x00"))
}
