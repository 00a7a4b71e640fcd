package confine

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxServed bounds the slow calls under way: connects, and calls that wait for a person. When
// there are more, they wait, and only the session waits with them.
const maxServed = 64

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

	goOn = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// A service answers the calls that the filter reports.
type service struct {
	tell   func(Denial)
	worker atomic.Int64 // its pid, in the session's pid namespace; 0 until it is known
	slots  chan struct{}

	giving  sync.Mutex  // held by the grant under way
	granted atomic.Bool // there was a grant

	mu    sync.Mutex
	told  map[Denial]bool // without IDs; at most maxTold
	asked int             // questions since the last Forget
	last  uint64          // the ID of the last question
	open  map[Denial]*question
}

// Serve answers the session's calls until the process ends. tell is told what is refused; it may
// be called by several goroutines. Serve must run on the thread that entered the sandbox.
//
// A connect is made in the worker's place: if the kernel went on with the worker's own call, a
// second thread could change the address after the check. Calls that change files go on, and the
// worker's mounts decide about them. The stage only sees beforehand which of them will be refused.
func (b *Box) Serve(tell func(Denial)) {
	b.tell = tell
	b.slots = make(chan struct{}, maxServed)
	b.open = map[Denial]*question{}
	b.Forget()
	go b.receive()
}

// Worker names the worker's pid, in the session's pid namespace.
func (b *Box) Worker(pid int) { b.worker.Store(int64(pid)) }

func (b *Box) receive() {
	calls := fileCalls()
	var n notification
	var names [2]name // used again for each call, because the stage frees no memory
	for {
		n = notification{}
		if err := control(b.calls, receiveCall, unsafe.Pointer(&n)); err != nil {
			if err == unix.EINTR || err == unix.ENOENT { // a signal interrupted the caller
				continue
			}
			return // no caller is left
		}
		r := reply{ID: n.ID, Flags: goOn}
		if f, ok := calls[n.Data.Number]; !ok {
			b.serve(n, b.connected)
		} else if d, refused := b.refusal(&n, f, &names); !refused {
			_ = control(b.calls, answerCall, unsafe.Pointer(&r)) // fails if the caller is gone
		} else if b.plan.Ask {
			b.serve(n, func(n *notification) reply { b.hold(n, d); return reply{ID: n.ID, Flags: goOn} })
		} else {
			b.denied(d)
			_ = control(b.calls, answerCall, unsafe.Pointer(&r))
		}
	}
}

// serve answers a call that may take long.
func (b *Box) serve(n notification, answer func(*notification) reply) {
	b.slots <- struct{}{}
	go func() {
		r := answer(&n)
		_ = control(b.calls, answerCall, unsafe.Pointer(&r))
		<-b.slots
	}()
}

func (b *Box) connected(n *notification) reply {
	r := reply{ID: n.ID}
	if err := b.connect(n); err != nil {
		r.Error = -int32(errnoOf(err))
	}
	return r
}

// denied tells a denial once, and not more than maxTold of them.
func (b *Box) denied(d Denial) {
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
