package broker

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/egressclient"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

const (
	// maxSlowCalls bounds the pending slow calls: connects, and calls that wait for the user or for
	// a reader of a pipe. Further ones are refused at once, so that the quick calls of the session
	// continue.
	maxSlowCalls = 512
	// maxConnecting bounds how many of them may connect concurrently. Further connects wait.
	maxConnecting = 64
)

// A Broker makes or refuses the system calls of a session that the filter reports to the monitor.
type Broker struct {
	workerview.View
	*nameguard.Guard
	plan       *plan.Plan
	NotifyFD   int                     // where the filter reports the calls that the monitor makes for the worker
	SockDiagFD int                     // asks the kernel about the sockets of the session's network
	sockDiagMu sync.Mutex              // guards SockDiagFD
	Egress     *egressclient.Connector // nil if the session has no egress

	onDenial     func(plan.Denial)
	onGitCheck   func()        // checks the git settings
	lastGitCheck time.Time     // time of the last onGitCheck
	workerPID    atomic.Int64  // the worker's pid in the session's pid namespace; 0 until it is known
	slots        chan struct{} // capacity maxSlowCalls
	connectSlots chan struct{} // capacity maxConnecting

	drafts      settingsDrafts
	pathBuffers sync.Pool // of *workerview.UserPath

	undelivered map[completedCall]time.Time // time of each call; guarded by mu

	mu              sync.Mutex
	reportedDenials map[plan.Denial]bool // without IDs; at most plan.MaxReportedDenials
	questionCount   int                  // questions since the last ForgetDenials
	lastQuestionID  uint64               // the ID of the last question
	openQuestions   map[plan.Denial]*permissionQuestion
}

// New returns a broker for a session of the plan, with nothing open yet.
func New(p *plan.Plan) *Broker {
	b := &Broker{View: workerview.New(), plan: p, NotifyFD: -1, SockDiagFD: -1}
	b.Guard = nameguard.New(&b.View)
	return b
}

// SetWorkerPID sets the worker's pid in the session's pid namespace.
func (b *Broker) SetWorkerPID(pid int) { b.workerPID.Store(int64(pid)) }

// A completedCall identifies a call that the monitor has made for a thread.
type completedCall struct {
	thread uint32
	number int32
	args   [6]uint64
	paths  [2]string
}

// reportDenial reports a denial once, and at most plan.MaxReportedDenials of them.
func (b *Broker) reportDenial(d plan.Denial) {
	if isBytecode(d.Path) {
		return
	}
	b.mu.Lock()
	isNew := len(b.reportedDenials) < plan.MaxReportedDenials && !b.reportedDenials[d]
	if isNew {
		b.reportedDenials[d] = true
	}
	b.mu.Unlock()
	if isNew {
		b.onDenial(d)
	}
}

// ForgetDenials allows denials to be reported again and further questions to be asked.
func (b *Broker) ForgetDenials() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reportedDenials, b.questionCount = map[plan.Denial]bool{}, 0
}

// IsPending reports whether a call still waits for its answer.
func (b *Broker) IsPending(call uint64) bool {
	return callIoctl(b.NotifyFD, ioctlNotifIDValid, unsafe.Pointer(&call)) == nil
}
