package broker

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// Serve answers the session's calls until the process ends. It passes refused calls to onDenial,
// which several goroutines may call. onGitCheck is called at intervals while calls change files,
// because git settings may lead to other paths by then. Serve must be called on the thread that
// entered the sandbox.
//
// The monitor makes a connect on behalf of the worker. If the kernel continued the worker's own
// call, a second thread could change the address after the check. The same applies to calls that
// change names, because some names are protected. The open of a device is continued if its driver
// checks the program that opens it.
func (b *Broker) Serve(onDenial func(plan.Denial), onGitCheck func()) {
	b.onDenial, b.onGitCheck, b.lastGitCheck = onDenial, onGitCheck, time.Now()
	b.slots, b.connectSlots = make(chan struct{}, maxSlowCalls), make(chan struct{}, maxConnecting)
	b.openQuestions = map[plan.Denial]*permissionQuestion{}
	b.pathBuffers.New = func() any { return new(workerview.UserPath) }
	b.AddProtected(b.plan.Absent, b.plan.Mounts)
	b.GuardMore(b.plan.GuardedDirs, b.plan.GitTargets)
	b.HideMore(b.plan.Unreadable)
	b.ForgetDenials()
	go b.receiveCalls()
}

// receiveCalls reads calls and answers them. Calls that change files are made on its own thread.
func (b *Broker) receiveCalls() {
	runtime.LockOSThread()
	if b.plan.Mechanism == "" && b.DropEffectiveRights() != nil { // without namespaces, no reported call changes files
		return // all calls fail once the listener is closed
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(b.NotifyFD), ioctlNotifSetFlags, notifSyncWakeUp) // Linux 6.6 and newer; it only saves time
	calls, objects := fileCalls(), ipcObjectCalls()
	limits := int32(seccomp.Architectures[runtime.GOARCH].Calls["prlimit64"])
	var n seccompNotif
	var names [2]workerview.UserPath // reused for each call, to keep the monitor's heap small
	for made := 1; ; {
		n = seccompNotif{}
		if err := callIoctl(b.NotifyFD, ioctlNotifRecv, unsafe.Pointer(&n)); err != nil {
			if err == unix.EINTR || err == unix.ENOENT { // a signal interrupted the caller
				continue
			}
			return // no process uses the filter any more
		}
		if k, ok := objects[n.Data.Number]; ok && b.plan.Objects > 0 {
			b.answerIPCObjectCall(&n, k)
			continue
		}
		f, ok := calls[n.Data.Number]
		switch {
		case n.Data.Number == limits:
			b.answerLimits(&n)
		case !ok:
			if !b.serveSlowCall(n, b.connectReply) {
				b.answerCall(&n, nil, [2]string{}, -1, unix.EAGAIN)
			}
		case f.isEmulated(&n):
			b.answerEmulated(&n, f, &names)
			if made++; made%callsPerCollection == 0 {
				runtime.GC() // the monitor's collector runs only at a much larger heap
			}
		default:
			b.continueCall(&n)
		}
	}
}

// continueCall lets the kernel make a call itself.
func (b *Broker) continueCall(n *seccompNotif) {
	r := seccompResp{ID: n.ID, Flags: notifContinue}
	_ = callIoctl(b.NotifyFD, ioctlNotifSend, unsafe.Pointer(&r)) // fails if the caller is gone
}

// answerLimits lets a program change the limits of another process, but not those of the monitor.
func (b *Broker) answerLimits(n *seccompNotif) {
	switch leader, err := b.ThreadGroupID(int(int32(n.Data.Args[0]))); {
	case err != nil:
		b.answerCall(n, nil, [2]string{}, -1, unix.ESRCH)
	case leader == 1:
		b.answerCall(n, nil, [2]string{}, -1, unix.EPERM)
	default:
		b.continueCall(n)
	}
}

// callsPerCollection is the number of calls after which the monitor frees their memory, some
// megabytes.
const callsPerCollection = 4096

// gitCheckInterval is the minimum time between two checks of git settings while calls change files.
const gitCheckInterval = 250 * time.Millisecond

const (
	// maxUndelivered bounds the completed calls whose result did not reach the program.
	maxUndelivered = 64
	// redeliveryTimeout is how long a program may take to repeat such a call after its signal handler.
	redeliveryTimeout = time.Second
)

// answerEmulated makes a call, and reports a denial or asks the user if the sandbox refuses it.
func (b *Broker) answerEmulated(n *seccompNotif, f *fileCall, names *[2]workerview.UserPath) {
	b.applyDrafts()
	if now := time.Now(); now.Sub(b.lastGitCheck) >= gitCheckInterval {
		b.lastGitCheck = now
		b.onGitCheck()
	}
	paths, err := b.pathsOf(n, f)
	if err == nil && b.isCompleted(n, f, paths) {
		b.answerCall(n, f, paths, -1, nil)
		return
	}
	if err == nil && isComputeDevice(n, f, paths[0]) {
		b.continueCall(n)
		return
	}
	fd := -1
	if err == nil {
		fd, err = b.emulateCall(n, f, paths)
	}
	switch denied, isDenied := err.(nameguard.ProtectedNameError); {
	case isDenied:
		b.reportDenial(newGuardDenial(denied, f, b.programName(int(n.PID))))
		err = unix.EROFS
	case err == unix.EBUSY:
		if d, refused := b.mountPointDenial(n, f, names); refused {
			b.reportDenial(d)
			err = unix.EROFS // not in use: it is a mount point
		}
	case err == unix.EROFS, err == unix.EXDEV: // a rename fails with EXDEV before the kernel checks for read-only mounts
		d, refused := b.readOnlyDenial(n, f, names)
		if refused && !d.Protected && !isBytecode(d.Path) && b.plan.Ask && b.answerLater(*n, f, paths, func(n *seccompNotif) { b.holdCall(n, d) }) {
			return
		}
		if refused {
			b.reportDenial(d)
		}
	case err == unix.ENXIO && f.canBlock(n): // may be a pipe without a reader
		if b.answerLater(*n, f, paths, func(*seccompNotif) {}) {
			return
		}
		err = unix.EAGAIN
	}
	b.answerCall(n, f, paths, fd, err)
}

// answerLater makes a call again after wait returns. It returns false if too many calls wait.
func (b *Broker) answerLater(n seccompNotif, f *fileCall, paths [2]string, wait func(*seccompNotif)) bool {
	return b.runInSlot(func(free func()) {
		wait(&n)
		b.RunUnprivileged(func(err error) {
			defer free()
			if err != nil {
				b.answerCall(&n, f, paths, -1, err)
				return
			}
			if !b.IsPending(n.ID) {
				return
			}
			fd, err := b.emulateCall(&n, f, paths)
			if err == unix.ENXIO && f.opensToRead(&n) {
				fd, err = b.openPipe(&n, paths[0], int(int32(n.Data.Args[f.flags])))
			}
			for err == unix.ENXIO && b.isPipe(paths[0]) && b.IsPending(n.ID) {
				time.Sleep(readerPollInterval)
				fd, err = b.emulateCall(&n, f, paths)
			}
			if denied, isDenied := err.(nameguard.ProtectedNameError); isDenied {
				b.reportDenial(newGuardDenial(denied, f, b.programName(int(n.PID))))
				err = unix.EROFS
			}
			b.answerCall(&n, f, paths, fd, err)
		})
	})
}

// runInSlot runs do on a goroutine, or returns false if there are too many. do must call free at
// its end.
func (b *Broker) runInSlot(do func(free func())) bool {
	select {
	case b.slots <- struct{}{}:
		go do(func() { <-b.slots })
		return true
	default:
		return false
	}
}

// readerPollInterval is how often a program that opens a pipe for writing checks for a reader.
const readerPollInterval = 5 * time.Millisecond

// isPipe reports whether a path names a pipe.
func (b *Broker) isPipe(file string) bool {
	fd, err := b.OpenPath(append([]byte(file), 0))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// answerCall answers a completed call. If a signal has interrupted the program in the meantime, the
// program repeats the call. The repetition must not fail because of the files that the first call
// has made.
func (b *Broker) answerCall(n *seccompNotif, f *fileCall, paths [2]string, fd int, err error) {
	r := seccompResp{ID: n.ID}
	sendErr := error(nil)
	switch {
	case err != nil:
		r.Error = -int32(errnoOf(err))
	case fd >= 0:
		sendErr = b.deliverDescriptor(n, fd, f.flags >= 0 && n.Data.Args[f.flags]&unix.O_CLOEXEC != 0)
		if sendErr != nil && sendErr != unix.ENOENT {
			r.Error = -int32(errnoOf(sendErr))
		}
	}
	if fd < 0 || r.Error != 0 {
		sendErr = callIoctl(b.NotifyFD, ioctlNotifSend, unsafe.Pointer(&r))
	}
	if err == nil && sendErr == unix.ENOENT {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.undelivered == nil || len(b.undelivered) >= maxUndelivered {
			b.undelivered = map[completedCall]time.Time{}
		}
		b.undelivered[newCompletedCall(n, paths)] = time.Now()
	}
}

func newCompletedCall(n *seccompNotif, paths [2]string) completedCall {
	return completedCall{n.PID, n.Data.Number, n.Data.Args, paths}
}

// isCompleted reports whether a call was already made without the program learning of it. An open
// is made again, and may find the file that it created. A program that does not repeat the call may
// make another one with the same arguments, whose memory holds another path. So the paths are
// compared as well.
func (b *Broker) isCompleted(n *seccompNotif, f *fileCall, paths [2]string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.undelivered) == 0 {
		return false
	}
	m := newCompletedCall(n, paths)
	made, ok := b.undelivered[m]
	delete(b.undelivered, m)
	if !ok || time.Since(made) > redeliveryTimeout {
		return false
	}
	if f.flags >= 0 {
		n.Data.Args[f.flags] &^= unix.O_EXCL
	}
	return f.op != "write"
}

// serveSlowCall answers a call that may take long. It returns false if there are too many such
// calls.
func (b *Broker) serveSlowCall(n seccompNotif, answer func(*seccompNotif) seccompResp) bool {
	return b.runInSlot(func(free func()) {
		defer free()
		r := answer(&n)
		_ = callIoctl(b.NotifyFD, ioctlNotifSend, unsafe.Pointer(&r))
	})
}

func (b *Broker) connectReply(n *seccompNotif) seccompResp {
	r := seccompResp{ID: n.ID}
	b.connectSlots <- struct{}{}
	defer func() { <-b.connectSlots }()
	if err := b.emulateConnect(n); err != nil {
		r.Error = -int32(errnoOf(err))
	}
	return r
}
