package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// connectTimeout bounds how long a worker may take to connect to its pipes.
const connectTimeout = 10 * time.Second

// startWorkerProcess starts cmd in a hidden console, with two named pipes. Its output goes into
// a pipe instead of the console, so that it arrives unchanged. The worker is interrupted only
// by its event, because CTRL_C can only be sent from its own console.
func startWorkerProcess(cmd *exec.Cmd, nonce string) (_ *workerLink, err error) {
	var undo []func()
	defer func() {
		if err != nil {
			for _, f := range undo {
				f()
			}
		}
	}()
	name, err := windows.UTF16PtrFromString(`Local\turnstone-interrupt-` + nonce)
	if err != nil {
		return nil, err
	}
	event, err := windows.CreateEvent(nil, 0, 0, name)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { windows.CloseHandle(event) })
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { windows.CloseHandle(job) })
	terminal, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer output.Close()
	undo = append(undo, func() { terminal.Close() })
	to, err := listenPipe(nonce+"-in", windows.PIPE_ACCESS_OUTBOUND)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { to.close() })
	from, err := listenPipe(nonce+"-out", windows.PIPE_ACCESS_INBOUND)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { from.close() })

	cmd.Env = append(cmd.Env, "REPL_IPC="+to.name+","+from.name+","+nonce)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	undo = append(undo, func() { cmd.Process.Kill(); cmd.Wait() })
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.SYNCHRONIZE, false, uint32(cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(job, process); err != nil {
		return nil, err
	}
	for _, p := range []*namedPipe{to, from} {
		if err := p.acceptWorker(process); err != nil {
			return nil, fmt.Errorf("the worker did not connect to its channel: %w", err)
		}
	}
	return &workerLink{
		terminal:   terminal,
		toWorker:   to.file,
		fromWorker: from.file,
		pipes:      []uint64{0, 0},
		sendSignal: func(bool) error { return windows.SetEvent(event) },
		kill: func() {
			windows.CloseHandle(job)
			windows.CloseHandle(event)
		},
	}, nil
}

// A namedPipe is the checker's end of a one-way named pipe.
type namedPipe struct {
	name       string
	handle     windows.Handle     // valid until file is set
	file       *os.File           // set by accept
	overlapped windows.Overlapped // must not be on a stack: the kernel writes to it later
}

// listenPipe creates a pipe that only the user's own processes can open.
func listenPipe(name string, access uint32) (*namedPipe, error) {
	p := &namedPipe{name: `\\.\pipe\turnstone-` + name}
	wide, err := windows.UTF16PtrFromString(p.name)
	if err != nil {
		return nil, err
	}
	p.handle, err = windows.CreateNamedPipe(wide, access|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, 64<<10, 64<<10, 0, nil)
	return p, err
}

// acceptWorker waits for the worker to connect, until it has exited or connectTimeout has
// passed.
func (p *namedPipe) acceptWorker(worker windows.Handle) error {
	event, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(event)
	p.overlapped.HEvent = event
	err = windows.ConnectNamedPipe(p.handle, &p.overlapped)
	if errors.Is(err, windows.ERROR_IO_PENDING) {
		windows.WaitForMultipleObjects([]windows.Handle{event, worker}, false, uint32(connectTimeout.Milliseconds()))
		windows.CancelIoEx(p.handle, &p.overlapped) // has no effect if the worker has connected
		var n uint32
		err = windows.GetOverlappedResult(p.handle, &p.overlapped, &n, true)
	}
	if err != nil && !errors.Is(err, windows.ERROR_PIPE_CONNECTED) {
		return err
	}
	p.file = os.NewFile(uintptr(p.handle), p.name)
	return nil
}

func (p *namedPipe) close() {
	if p.file != nil {
		p.file.Close()
		return
	}
	windows.CloseHandle(p.handle)
}

// newJob creates a job that ends its processes when it is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}
