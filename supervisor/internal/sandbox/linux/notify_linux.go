package linux

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
)

const (
	// maxSlowCalls bounds the pending slow calls: connects, and calls that wait for the user or for
	// a reader of a pipe. Further ones are refused at once, so that the quick calls of the session
	// continue.
	maxSlowCalls = 512
	// maxConnecting bounds the connects among them that are made concurrently. The others wait.
	maxConnecting = 64
)

// A seccompNotif is the kernel's struct seccomp_notif: a system call that waits for an answer.
type seccompNotif struct {
	ID    uint64
	PID   uint32 // thread ID of the caller
	Flags uint32
	Data  struct {
		Number             int32
		Audit              uint32
		InstructionPointer uint64
		Args               [6]uint64
	}
}

// A seccompResp is the kernel's struct seccomp_notif_resp: the answer to a call.
type seccompResp struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// The ioctl requests for the descriptor of a filter.
const (
	ioctlNotifRecv     = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	ioctlNotifSend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	ioctlNotifIDValid  = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	ioctlNotifSetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS

	notifSyncWakeUp = 1 // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: the monitor and the program that waits for it share a processor

	notifContinue = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// A callService answers the system calls that the filter reports to the monitor.
type callService struct {
	onDenial     func(plan.Denial)
	onGitCheck   func()        // checks the git settings
	lastGitCheck time.Time     // time of the last onGitCheck
	workerPID    atomic.Int64  // the worker's pid in the session's pid namespace; 0 until it is known
	slots        chan struct{} // capacity maxSlowCalls
	connectSlots chan struct{} // capacity maxConnecting

	writeGuard
	drafts  settingsDrafts
	grantMu sync.Mutex // held while a grant or refresh is applied

	pathBuffers        sync.Pool // of *userPath
	protectMu          sync.RWMutex
	protectedPaths     map[string]bool           // paths that must not be made, folded
	protectedLastNames map[string]bool           // their last names
	protectedParents   map[string]bool           // all directories above them
	hiddenPaths        []string                  // hidden paths, case-folded
	mountKinds         map[string]plan.MountKind // the mounts by path
	mountNames         map[string]bool           // their last names

	undelivered map[completedCall]time.Time // time of each call; guarded by mu

	mu              sync.Mutex
	reportedDenials map[plan.Denial]bool // without IDs; at most plan.MaxReportedDenials
	questionCount   int                  // questions since the last ForgetDenials
	lastQuestionID  uint64               // the ID of the last question
	openQuestions   map[plan.Denial]*permissionQuestion
}

// Serve answers the session's calls until the process ends. It passes refused calls to onDenial,
// which several goroutines may call. onGitCheck is called at intervals while calls change files,
// because git settings may lead to other paths by then. Serve must be called on the thread that
// entered the sandbox.
//
// The monitor makes a connect on behalf of the worker: if the kernel continued the worker's own
// call, a second thread could change the address after the check. The same applies to calls that
// change names, because some names are protected. The open of a device is continued if its driver
// checks the program that opens it.
func (sb *ActiveSandbox) Serve(onDenial func(plan.Denial), onGitCheck func()) {
	sb.onDenial, sb.onGitCheck, sb.lastGitCheck = onDenial, onGitCheck, time.Now()
	sb.slots, sb.connectSlots = make(chan struct{}, maxSlowCalls), make(chan struct{}, maxConnecting)
	sb.openQuestions = map[plan.Denial]*permissionQuestion{}
	sb.pathBuffers.New = func() any { return new(userPath) }
	sb.addProtected(sb.plan.Absent, sb.plan.Mounts)
	sb.guardMore(sb.plan.GuardedDirs, sb.plan.GitTargets)
	sb.hideMore(sb.plan.Unreadable)
	sb.ForgetDenials()
	go sb.receiveCalls()
}

// SetWorkerPID sets the worker's pid in the session's pid namespace.
func (sb *ActiveSandbox) SetWorkerPID(pid int) { sb.workerPID.Store(int64(pid)) }

// receiveCalls reads calls and answers them. Calls that change files are made on its own thread.
func (sb *ActiveSandbox) receiveCalls() {
	runtime.LockOSThread()
	if sb.plan.Mechanism == "" && sb.dropEffectiveRights() != nil { // without namespaces, no reported call changes files
		return // all calls fail once the listener is closed
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(sb.notifyFD), ioctlNotifSetFlags, notifSyncWakeUp) // Linux 6.6 and newer; it only saves time
	calls, objects := fileCalls(), ipcObjectCalls()
	limits := int32(seccomp.Architectures[runtime.GOARCH].Calls["prlimit64"])
	var n seccompNotif
	var names [2]userPath // reused for each call, to keep the monitor's heap small
	for made := 1; ; {
		n = seccompNotif{}
		if err := callIoctl(sb.notifyFD, ioctlNotifRecv, unsafe.Pointer(&n)); err != nil {
			if err == unix.EINTR || err == unix.ENOENT { // a signal interrupted the caller
				continue
			}
			return // no process uses the filter any more
		}
		if k, ok := objects[n.Data.Number]; ok && sb.plan.Objects > 0 {
			sb.answerIPCObjectCall(&n, k)
			continue
		}
		f, ok := calls[n.Data.Number]
		switch {
		case n.Data.Number == limits:
			sb.answerLimits(&n)
		case !ok:
			if !sb.serveSlowCall(n, sb.connectReply) {
				sb.answerCall(&n, nil, [2]string{}, -1, unix.EAGAIN)
			}
		case f.isEmulated(&n):
			sb.answerEmulated(&n, f, &names)
			if made++; made%callsPerCollection == 0 {
				runtime.GC() // the monitor's collector runs only at a much larger heap
			}
		default:
			sb.continueCall(&n)
		}
	}
}

// continueCall lets the kernel make a call itself.
func (sb *ActiveSandbox) continueCall(n *seccompNotif) {
	r := seccompResp{ID: n.ID, Flags: notifContinue}
	_ = callIoctl(sb.notifyFD, ioctlNotifSend, unsafe.Pointer(&r)) // fails if the caller is gone
}

// answerLimits lets a program change the limits of another process, but not those of the monitor.
func (sb *ActiveSandbox) answerLimits(n *seccompNotif) {
	switch leader, err := sb.threadGroupID(int(int32(n.Data.Args[0]))); {
	case err != nil:
		sb.answerCall(n, nil, [2]string{}, -1, unix.ESRCH)
	case leader == 1:
		sb.answerCall(n, nil, [2]string{}, -1, unix.EPERM)
	default:
		sb.continueCall(n)
	}
}

// callsPerCollection is the number of calls after which the monitor frees their memory, some
// megabytes.
const callsPerCollection = 4096

// A completedCall identifies a call that the monitor has made for a thread.
type completedCall struct {
	thread uint32
	number int32
	args   [6]uint64
	paths  [2]string
}

// gitCheckInterval is the minimum time between two checks of git settings while calls change files.
const gitCheckInterval = 250 * time.Millisecond

const (
	// maxUndelivered bounds the completed calls whose result did not reach the program.
	maxUndelivered = 64
	// redeliveryTimeout is how long a program may take to repeat such a call after its signal handler.
	redeliveryTimeout = time.Second
)

// answerEmulated makes a call, and reports a denial or asks the user if the sandbox refuses it.
func (sb *ActiveSandbox) answerEmulated(n *seccompNotif, f *fileCall, names *[2]userPath) {
	sb.applyDrafts()
	if now := time.Now(); now.Sub(sb.lastGitCheck) >= gitCheckInterval {
		sb.lastGitCheck = now
		sb.onGitCheck()
	}
	paths, err := sb.pathsOf(n, f)
	if err == nil && sb.isCompleted(n, f, paths) {
		sb.answerCall(n, f, paths, -1, nil)
		return
	}
	if err == nil && isComputeDevice(n, f, paths[0]) {
		sb.continueCall(n)
		return
	}
	fd := -1
	if err == nil {
		fd, err = sb.emulateCall(n, f, paths)
	}
	switch denied, isDenied := err.(protectedNameError); {
	case isDenied:
		sb.reportDenial(denied.newDenial(f, sb.programName(int(n.PID))))
		err = unix.EROFS
	case err == unix.EBUSY:
		if d, refused := sb.mountPointDenial(n, f, names); refused {
			sb.reportDenial(d)
			err = unix.EROFS // not in use: it is a mount point
		}
	case err == unix.EROFS, err == unix.EXDEV: // a rename fails with EXDEV before the kernel checks for read-only mounts
		d, refused := sb.readOnlyDenial(n, f, names)
		if refused && !d.Protected && !isBytecode(d.Path) && sb.plan.Ask && sb.answerLater(*n, f, paths, func(n *seccompNotif) { sb.holdCall(n, d) }) {
			return
		}
		if refused {
			sb.reportDenial(d)
		}
	case err == unix.ENXIO && f.canBlock(n): // may be a pipe without a reader
		if sb.answerLater(*n, f, paths, func(*seccompNotif) {}) {
			return
		}
		err = unix.EAGAIN
	}
	sb.answerCall(n, f, paths, fd, err)
}

// newDenial returns the denial of a call that the guard refused.
func (e protectedNameError) newDenial(f *fileCall, by string) plan.Denial {
	d := plan.Denial{Op: f.op, Path: e.path, Program: by, Protected: true}
	switch {
	case e.setting != "":
		d.Op, d.Setting = "set", e.setting
	case (f.op == "write" || f.op == "rename") && !filestate.IsPresent(e.path):
		d.Op = "create"
	}
	return d
}

// answerLater makes a call again after wait returns. It returns false if too many calls wait.
func (sb *ActiveSandbox) answerLater(n seccompNotif, f *fileCall, paths [2]string, wait func(*seccompNotif)) bool {
	return sb.runInSlot(func(free func()) {
		wait(&n)
		sb.runUnprivileged(func(err error) {
			defer free()
			if err != nil {
				sb.answerCall(&n, f, paths, -1, err)
				return
			}
			if !sb.isPending(n.ID) {
				return
			}
			fd, err := sb.emulateCall(&n, f, paths)
			if err == unix.ENXIO && f.opensToRead(&n) {
				fd, err = sb.openPipe(&n, paths[0], int(int32(n.Data.Args[f.flags])))
			}
			for err == unix.ENXIO && sb.isPipe(paths[0]) && sb.isPending(n.ID) {
				time.Sleep(readerPollInterval)
				fd, err = sb.emulateCall(&n, f, paths)
			}
			if denied, isDenied := err.(protectedNameError); isDenied {
				sb.reportDenial(denied.newDenial(f, sb.programName(int(n.PID))))
				err = unix.EROFS
			}
			sb.answerCall(&n, f, paths, fd, err)
		})
	})
}

// runInSlot runs do on a goroutine, or returns false if there are too many. do must call free at
// its end.
func (sb *ActiveSandbox) runInSlot(do func(free func())) bool {
	select {
	case sb.slots <- struct{}{}:
		go do(func() { <-sb.slots })
		return true
	default:
		return false
	}
}

// readerPollInterval is how often a program that opens a pipe for writing checks for a reader.
const readerPollInterval = 5 * time.Millisecond

// canBlock reports whether an open may wait for the other end of a pipe.
func (f *fileCall) canBlock(n *seccompNotif) bool {
	return f.flags < 0 || n.Data.Args[f.flags]&unix.O_NONBLOCK == 0
}

// isPipe reports whether a path is that of a named pipe.
func (sb *ActiveSandbox) isPipe(file string) bool {
	fd, err := sb.openPath(append([]byte(file), 0))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// answerCall answers a call that was made. If a signal has interrupted the program in the meantime,
// the program repeats the call, and must not fail because of what the call has already made.
func (sb *ActiveSandbox) answerCall(n *seccompNotif, f *fileCall, paths [2]string, fd int, err error) {
	r := seccompResp{ID: n.ID}
	sendErr := error(nil)
	switch {
	case err != nil:
		r.Error = -int32(errnoOf(err))
	case fd >= 0:
		sendErr = sb.deliverDescriptor(n, fd, f.flags >= 0 && n.Data.Args[f.flags]&unix.O_CLOEXEC != 0)
		if sendErr != nil && sendErr != unix.ENOENT {
			r.Error = -int32(errnoOf(sendErr))
		}
	}
	if fd < 0 || r.Error != 0 {
		sendErr = callIoctl(sb.notifyFD, ioctlNotifSend, unsafe.Pointer(&r))
	}
	if err == nil && sendErr == unix.ENOENT {
		sb.mu.Lock()
		defer sb.mu.Unlock()
		if sb.undelivered == nil || len(sb.undelivered) >= maxUndelivered {
			sb.undelivered = map[completedCall]time.Time{}
		}
		sb.undelivered[newCompletedCall(n, paths)] = time.Now()
	}
}

func newCompletedCall(n *seccompNotif, paths [2]string) completedCall {
	return completedCall{n.PID, n.Data.Number, n.Data.Args, paths}
}

// isCompleted reports whether a call was already made without the program learning of it. An open
// is made again, and may find the file that it made. A program that does not repeat the call may
// make another one with the same arguments, whose memory holds another path. So the paths are
// compared as well.
func (sb *ActiveSandbox) isCompleted(n *seccompNotif, f *fileCall, paths [2]string) bool {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if len(sb.undelivered) == 0 {
		return false
	}
	m := newCompletedCall(n, paths)
	made, ok := sb.undelivered[m]
	delete(sb.undelivered, m)
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
func (sb *ActiveSandbox) serveSlowCall(n seccompNotif, answer func(*seccompNotif) seccompResp) bool {
	return sb.runInSlot(func(free func()) {
		defer free()
		r := answer(&n)
		_ = callIoctl(sb.notifyFD, ioctlNotifSend, unsafe.Pointer(&r))
	})
}

func (sb *ActiveSandbox) connectReply(n *seccompNotif) seccompResp {
	r := seccompResp{ID: n.ID}
	sb.connectSlots <- struct{}{}
	defer func() { <-sb.connectSlots }()
	if err := sb.emulateConnect(n); err != nil {
		r.Error = -int32(errnoOf(err))
	}
	return r
}

// reportDenial reports a denial once, and at most plan.MaxReportedDenials of them.
func (sb *ActiveSandbox) reportDenial(d plan.Denial) {
	if isBytecode(d.Path) {
		return
	}
	sb.mu.Lock()
	isNew := len(sb.reportedDenials) < plan.MaxReportedDenials && !sb.reportedDenials[d]
	if isNew {
		sb.reportedDenials[d] = true
	}
	sb.mu.Unlock()
	if isNew {
		sb.onDenial(d)
	}
}

// ForgetDenials allows denials to be reported again and further questions to be asked.
func (sb *ActiveSandbox) ForgetDenials() {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.reportedDenials, sb.questionCount = map[plan.Denial]bool{}, 0
}

// isPending reports whether a call still waits for its answer.
func (sb *ActiveSandbox) isPending(call uint64) bool {
	return callIoctl(sb.notifyFD, ioctlNotifIDValid, unsafe.Pointer(&call)) == nil
}
