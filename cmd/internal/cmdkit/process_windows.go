package cmdkit

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// ExecProgram runs another program in place of this one, as far as Windows allows: with its streams
// and its console, until it exits. The other program ends with this one, even if this one is
// killed. Its children continue, as with python.exe.
func ExecProgram(s Streams, path string, args []string) (int, error) {
	// The console sends Ctrl-C and its own end to both. The program must respond to them.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	job, err := newKillOnCloseJob()
	if err != nil {
		return StatusFailed, err
	}
	defer windows.CloseHandle(job)
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	if err := cmd.Start(); err != nil {
		return StatusFailed, err
	}
	_ = cmd.Process.WithHandle(func(handle uintptr) { // the error is ignored, because the program may have exited
		_ = windows.AssignProcessToJobObject(job, windows.Handle(handle))
	})
	err = cmd.Wait()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		err = nil
	}
	return cmd.ProcessState.ExitCode() & exitStatusMask, err
}

// newKillOnCloseJob returns a job whose processes end when its handle is closed. Children of these
// processes are not in the job.
func newKillOnCloseJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}
