package confine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxWaiting bounds the slow calls under way: connects, and calls that wait for a person or for
	// a reader of a pipe. Others are refused at once, so that the quick calls of the session go on.
	maxWaiting = 512
	// maxConnecting bounds the connects of them that are made at the same time. The others wait.
	maxConnecting = 64
)

// A notification is struct seccomp_notif.
type notification struct {
	ID    uint64
	PID   uint32 // of the thread
	Flags uint32
	Data  struct {
		Number             int32
		Audit              uint32
		InstructionPointer uint64
		Args               [6]uint64
	}
}

// A reply is struct seccomp_notif_resp.
type reply struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// These are the requests for a filter's descriptor.
const (
	receiveCall = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	answerCall  = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	isValid     = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	setFlags    = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS

	wakesInTurn = 1 // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: the stage and a program that waits for it share a processor

	goOn = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// A service answers the calls that the filter reports.
type service struct {
	tell       func(Denial)
	lookAgain  func()        // looks at git's settings
	looked     time.Time     // when it did
	worker     atomic.Int64  // its pid, in the session's pid namespace; 0 until it is known
	slots      chan struct{} // maxWaiting
	connecting chan struct{} // maxConnecting

	guard
	sinks  sinks
	giving sync.Mutex // held by the grant under way

	buffers   sync.Pool // of *name
	keeping   sync.RWMutex
	kept      map[string]bool // paths that must not be made, in lower case
	keptNames map[string]bool // their last names
	keptAbove map[string]bool // all directories above them
	closed    []string        // what is hidden, in lower case
	places    map[string]Kind // the mounts by path
	placed    map[string]bool // their last names

	unsent map[making]time.Time // when each was made; guarded by mu

	mu    sync.Mutex
	told  map[Denial]bool // without IDs; at most maxTold
	asked int             // questions since the last Forget
	last  uint64          // the ID of the last question
	open  map[Denial]*question
}

// Serve answers the session's calls until the process ends. tell is told what is refused; it may
// be called by several goroutines. look is called while calls change files, but seldom: git's settings may
// lead to others by now. Serve must run on the thread that entered the sandbox.
//
// A connect is made in the worker's place: if the kernel went on with the worker's own call, a
// second thread could change the address after the check. The same holds for calls that change names,
// because some must not change. Opening a device goes on if its driver looks at the program that
// opens it.
func (b *Box) Serve(tell func(Denial), look func()) {
	b.tell, b.lookAgain, b.looked = tell, look, time.Now()
	b.slots, b.connecting = make(chan struct{}, maxWaiting), make(chan struct{}, maxConnecting)
	b.open = map[Denial]*question{}
	b.buffers.New = func() any { return new(name) }
	b.keep(b.plan.Absent, b.plan.Places)
	b.guardMore(b.plan.Work, b.plan.Reach)
	b.closeMore(b.plan.Closed)
	b.Forget()
	go b.receive()
}

// Worker names the worker's pid, in the session's pid namespace.
func (b *Box) Worker(pid int) { b.worker.Store(int64(pid)) }

// receive reads the calls. It makes those that change files on its own thread.
func (b *Box) receive() {
	runtime.LockOSThread()
	if b.plan.By == "" && b.withoutRights() != nil { // else no call changes files
		return // calls then fail when the listener is closed
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(b.calls), setFlags, wakesInTurn) // Linux 6.6 and newer; it only saves time
	calls, objects := fileCalls(), objectCalls()
	limits := int32(architectures[runtime.GOARCH].calls["prlimit64"])
	var n notification
	var names [2]name // used again for each call, because the stage frees no memory
	for made := 1; ; {
		n = notification{}
		if err := control(b.calls, receiveCall, unsafe.Pointer(&n)); err != nil {
			if err == unix.EINTR || err == unix.ENOENT { // a signal interrupted the caller
				continue
			}
			return // no caller is left
		}
		if k, ok := objects[n.Data.Number]; ok && b.plan.Objects > 0 {
			b.answerObject(&n, k)
			continue
		}
		f, ok := calls[n.Data.Number]
		switch {
		case n.Data.Number == limits:
			b.answerLimits(&n)
		case !ok:
			if !b.serve(n, b.connected) {
				b.answer(&n, nil, [2]string{}, -1, unix.EAGAIN)
			}
		case f.isMaking(&n):
			b.answerMaking(&n, f, &names)
			if made++; made%collectAfter == 0 {
				runtime.GC() // the stage's collector waits for much more
			}
		default:
			b.letGoOn(&n)
		}
	}
}

// letGoOn has the kernel make a call itself.
func (b *Box) letGoOn(n *notification) {
	r := reply{ID: n.ID, Flags: goOn}
	_ = control(b.calls, answerCall, unsafe.Pointer(&r)) // fails if the caller is gone
}

// answerLimits lets a program change the limits of another, but not those of the stage.
func (b *Box) answerLimits(n *notification) {
	switch leader, err := b.leader(int(int32(n.Data.Args[0]))); {
	case err != nil:
		b.answer(n, nil, [2]string{}, -1, unix.ESRCH)
	case leader == 1:
		b.answer(n, nil, [2]string{}, -1, unix.EPERM)
	default:
		b.letGoOn(n)
	}
}

// collectAfter is how many calls the stage makes before it frees their memory, some megabytes.
const collectAfter = 4096

// A making is a call that was made for a thread.
type making struct {
	thread uint32
	number int32
	args   [6]uint64
	paths  [2]string
}

// betweenLooks is how long what git's settings lead to is believed while calls change files.
const betweenLooks = 250 * time.Millisecond

const (
	// maxUnsent bounds the calls that were made and whose programs do not know it.
	maxUnsent = 64
	// untilSentAgain is how long a program may take to make such a call again, after its handler of the signal.
	untilSentAgain = time.Second
)

// answerMaking makes a call, and tells or asks if the sandbox refuses it.
func (b *Box) answerMaking(n *notification, f *fileCall, names *[2]name) {
	b.takeWritten()
	if now := time.Now(); now.Sub(b.looked) >= betweenLooks {
		b.looked = now
		b.lookAgain()
	}
	paths, err := b.pathsOf(n, f)
	if err == nil && b.wasMade(n, f, paths) {
		b.answer(n, f, paths, -1, nil)
		return
	}
	if err == nil && computes(n, f, paths[0]) {
		b.letGoOn(n)
		return
	}
	fd := -1
	if err == nil {
		fd, err = b.make(n, f, paths)
	}
	switch kept, isKept := err.(keptError); {
	case isKept:
		b.denied(kept.denial(f, b.program(int(n.PID))))
		err = unix.EROFS
	case err == unix.EBUSY:
		if d, refused := b.pinned(n, f, names); refused {
			b.denied(d)
			err = unix.EROFS // nobody uses it: it is a mount that keeps it
		}
	case err == unix.EROFS, err == unix.EXDEV: // a rename fails so before the kernel looks at the mounts
		d, refused := b.refusal(n, f, names)
		if refused && !d.Kept && !isBytecode(d.Path) && b.plan.Ask && b.later(*n, f, paths, func(n *notification) { b.hold(n, d) }) {
			return
		}
		if refused {
			b.denied(d)
		}
	case err == unix.ENXIO && f.mayWait(n): // perhaps a pipe without a reader
		if b.later(*n, f, paths, func(*notification) {}) {
			return
		}
		err = unix.EAGAIN
	}
	b.answer(n, f, paths, fd, err)
}

// denial says what was refused to a program.
func (k keptError) denial(f *fileCall, by string) Denial {
	d := Denial{Op: f.op, Path: k.path, By: by, Kept: true}
	switch {
	case k.setting != "":
		d.Op, d.Setting = "set", k.setting
	case (f.op == "write" || f.op == "rename") && !exists(k.path):
		d.Op = "create"
	}
	return d
}

// later makes a call again after a wait. It returns false if too many wait.
func (b *Box) later(n notification, f *fileCall, paths [2]string, wait func(*notification)) bool {
	return b.slot(func(free func()) {
		wait(&n)
		b.apart(func(err error) {
			defer free()
			if err != nil {
				b.answer(&n, f, paths, -1, err)
				return
			}
			if !b.isHere(n.ID) {
				return
			}
			fd, err := b.make(&n, f, paths)
			if err == unix.ENXIO && f.opensToRead(&n) {
				fd, err = b.openPipe(&n, paths[0], int(int32(n.Data.Args[f.flags])))
			}
			for err == unix.ENXIO && b.isPipe(paths[0]) && b.isHere(n.ID) {
				time.Sleep(readerPause)
				fd, err = b.make(&n, f, paths)
			}
			if kept, isKept := err.(keptError); isKept {
				b.denied(kept.denial(f, b.program(int(n.PID))))
				err = unix.EROFS
			}
			b.answer(&n, f, paths, fd, err)
		})
	})
}

// slot runs do on a goroutine, and returns false if there are too many. do calls free at its end.
func (b *Box) slot(do func(free func())) bool {
	select {
	case b.slots <- struct{}{}:
		go do(func() { <-b.slots })
		return true
	default:
		return false
	}
}

// readerPause is how often a program that opens a pipe to write looks whether there is a reader.
const readerPause = 5 * time.Millisecond

// mayWait reports whether an open may wait for the other end of a pipe.
func (f *fileCall) mayWait(n *notification) bool {
	return f.flags < 0 || n.Data.Args[f.flags]&unix.O_NONBLOCK == 0
}

// isPipe reports whether a path is that of a pipe.
func (b *Box) isPipe(file string) bool {
	fd, err := b.look(append([]byte(file), 0))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// answer answers a call that was made. If a signal has interrupted its program meanwhile, the
// program makes the call again: it must not find what it made itself.
func (b *Box) answer(n *notification, f *fileCall, paths [2]string, fd int, err error) {
	r := reply{ID: n.ID}
	sent := error(nil)
	switch {
	case err != nil:
		r.Error = -int32(errnoOf(err))
	case fd >= 0:
		sent = b.handOver(n, fd, f.flags >= 0 && n.Data.Args[f.flags]&unix.O_CLOEXEC != 0)
		if sent != nil && sent != unix.ENOENT {
			r.Error = -int32(errnoOf(sent))
		}
	}
	if fd < 0 || r.Error != 0 {
		sent = control(b.calls, answerCall, unsafe.Pointer(&r))
	}
	if err == nil && sent == unix.ENOENT {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.unsent == nil || len(b.unsent) >= maxUnsent {
			b.unsent = map[making]time.Time{}
		}
		b.unsent[makingOf(n, paths)] = time.Now()
	}
}

func makingOf(n *notification, paths [2]string) making {
	return making{n.PID, n.Data.Number, n.Data.Args, paths}
}

// wasMade reports whether a call was made already, and its program does not know it. An open is
// made again, and may find its file. A program that does not make its call again may make another with the
// same arguments, for which it has written another path into its memory.
func (b *Box) wasMade(n *notification, f *fileCall, paths [2]string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.unsent) == 0 {
		return false
	}
	m := makingOf(n, paths)
	made, ok := b.unsent[m]
	delete(b.unsent, m)
	if !ok || time.Since(made) > untilSentAgain {
		return false
	}
	if f.flags >= 0 {
		n.Data.Args[f.flags] &^= unix.O_EXCL
	}
	return f.op != "write"
}

// serve answers a call that may take long. It returns false if too many do.
func (b *Box) serve(n notification, answer func(*notification) reply) bool {
	return b.slot(func(free func()) {
		defer free()
		r := answer(&n)
		_ = control(b.calls, answerCall, unsafe.Pointer(&r))
	})
}

func (b *Box) connected(n *notification) reply {
	r := reply{ID: n.ID}
	b.connecting <- struct{}{}
	defer func() { <-b.connecting }()
	if err := b.connect(n); err != nil {
		r.Error = -int32(errnoOf(err))
	}
	return r
}

// denied tells a denial once, and not more than maxTold of them.
func (b *Box) denied(d Denial) {
	if isBytecode(d.Path) {
		return
	}
	b.mu.Lock()
	tell := len(b.told) < maxTold && !b.told[d]
	if tell {
		b.told[d] = true
	}
	b.mu.Unlock()
	if tell {
		b.tell(d)
	}
}

// Forget lets denials be told again, and questions be asked.
func (b *Box) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told, b.asked = map[Denial]bool{}, 0
}

// isHere reports whether a call still waits for its answer.
func (b *Box) isHere(call uint64) bool {
	return control(b.calls, isValid, unsafe.Pointer(&call)) == nil
}
