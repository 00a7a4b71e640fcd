package e2e

import (
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// assignJob assigns a process that was started suspended to a job, and resumes it. The returned
// function kills all processes in the job.
func assignJob(t *testing.T, pid int, more uint32) (end func()) {
	t.Helper()
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | more
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		t.Fatal(err)
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_SUSPEND_RESUME, false, uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(job, process); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess").Call(uintptr(process)); status != 0 {
		t.Fatal(windows.NTStatus(status))
	}
	return func() { _ = windows.CloseHandle(job) }
}

func TestMCPDaemon_LeavesWindowsJob(t *testing.T) {
	for _, test := range []struct {
		name    string
		more    uint32
		leaves  bool
		says    string
		notWine string
	}{
		{"a job that the daemon may leave", windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK, true, "", "under Wine no process leaves a job"},
		{"a job that the daemon may not leave", 0, false, "the daemon ends with it", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if testexec.IsWine() && test.notWine != "" {
				t.Skip(test.notWine)
			}
			h := newDaemonHome(t)
			cmd := h.command(t, "mcp", "--lang", "python", "--daemon=auto", "--name", "bot")
			cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
			var end func()
			a := startMCPClient(t, cmd, func() { end = assignJob(t, cmd.Process.Pid, test.more) })
			if got := a.callRepl("x = 40; print(x + 2)"); got != "42" {
				t.Errorf("got %q", got)
			}
			end()
			_ = a.cmd.Wait()
			if test.leaves {
				wantResult(t, h.runRepl(t, "", "exec", "bot", "-e", "x"), result{"40\n", "", 0})
				wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
			} else {
				wait.Until(t, "the daemon is gone", func() bool { return h.runRepl(t, "", "list").status == 3 })
			}
			if said := a.errs.String(); !testexec.IsWine() && !strings.Contains(said, test.says) { // Wine claims that it has left the job
				t.Errorf("it said %q, want %q", said, test.says)
			}
		})
	}
}
