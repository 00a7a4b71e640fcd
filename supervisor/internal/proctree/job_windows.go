package proctree

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A Job contains all processes of one session. It ends them when TerminateAll is called, and when
// its last handle closes, which the kernel does for a supervisor that was killed. No process
// can leave it.
type Job struct {
	port               windows.Handle // receives messages about the job; closed by readMessages
	emptied            chan struct{}  // holds one message: the job may be empty now
	listenDone         chan struct{}  // closed when readMessages has ended; nil before it starts
	limits             ProcessLimits
	memoryLimitReached atomic.Bool // the memory limit was reached

	mu     sync.Mutex
	handle windows.Handle // never inherited, never duplicated; 0 once closed; guarded by mu
}

// A jobPort associates a job with a completion port, as in <winnt.h>; x/sys lacks it.
type jobPort struct {
	key  uintptr
	port windows.Handle
}

// A jobAccounting is the system's JOBOBJECT_BASIC_ACCOUNTING_INFORMATION about a job; x/sys lacks it.
type jobAccounting struct {
	userTime, kernelTime, periodUserTime, periodKernelTime int64
	pageFaults, total, active, terminated                  uint32
}

// Messages about a job: two of the kernel, from <winnt.h>, and our own to readMessages.
const (
	jobEmpty  = 4  // JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO
	jobMemory = 10 // JOB_OBJECT_MSG_JOB_MEMORY_LIMIT
	jobClosed = 1 << 16
)

// ErrProcessEnded is returned for a process that ended before it could be put into its job.
var ErrProcessEnded = errors.New("the process has ended")

// terminatedCode is the exit status of processes that the job ends.
const terminatedCode = 1

// NewJob creates a job with these limits.
func NewJob(l ProcessLimits) (_ *Job, err error) {
	j := &Job{limits: l, emptied: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	if j.handle, err = windows.CreateJobObject(nil, nil); err != nil {
		return nil, err
	}
	limits := JobLimits(l)
	if _, err := windows.SetInformationJobObject(j.handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return nil, err
	}
	if j.port, err = windows.CreateIoCompletionPort(windows.InvalidHandle, 0, 0, 1); err != nil {
		return nil, err
	}
	port := jobPort{port: j.port}
	if _, err := windows.SetInformationJobObject(j.handle, windows.JobObjectAssociateCompletionPortInformation,
		uintptr(unsafe.Pointer(&port)), uint32(unsafe.Sizeof(port))); err != nil {
		return nil, err
	}
	j.listenDone = make(chan struct{})
	go j.readMessages()
	return j, nil
}

// JobLimits returns the limits of a job in the system's form. Such a job ends its processes with its
// last handle, lets none leave, and bounds the bytes that they commit and their number. The monitor
// counts as one.
func JobLimits(given ProcessLimits) windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION {
	var l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	// A crash ends a process at once, because no user could answer a dialog.
	l.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	if given.Memory > 0 {
		l.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_JOB_MEMORY
		l.JobMemoryLimit = uintptr(given.Memory)
	}
	if given.Processes > 0 {
		l.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
		l.BasicLimitInformation.ActiveProcessLimit = uint32(given.Processes) + 1
	}
	return l
}

// readMessages reads the messages of the kernel, which would otherwise pile up: there is one for
// each process that starts or ends. It ends with Close.
func (j *Job) readMessages() {
	defer close(j.listenDone)
	for {
		var message uint32
		var key, about uintptr // about is a process id, not the pointer of its type
		err := windows.GetQueuedCompletionStatus(j.port, &message, &key,
			(**windows.Overlapped)(unsafe.Pointer(&about)), windows.INFINITE)
		switch {
		case err != nil, message == jobClosed:
			_ = windows.CloseHandle(j.port)
			return
		case message == jobMemory:
			j.memoryLimitReached.Store(true)
		case message == jobEmpty:
			select {
			case j.emptied <- struct{}{}:
			default:
			}
		}
	}
}

// AddProcess puts a process into the job and returns a handle to wait for it. The caller must
// hold a handle of the process, so that its id stays valid. If AddProcess fails, it ends the
// process; ErrProcessEnded means that the process had ended before.
func (j *Job) AddProcess(pid uint32) (windows.Handle, error) {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_DUP_HANDLE|windows.SYNCHRONIZE, false, pid)
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", pid, err)
	}
	if err := windows.AssignProcessToJobObject(j.handle, h); err != nil {
		defer windows.CloseHandle(h)
		if ended, _ := windows.WaitForSingleObject(h, 0); ended == windows.WAIT_OBJECT_0 {
			return 0, ErrProcessEnded
		}
		_ = windows.TerminateProcess(h, terminatedCode)
		return 0, fmt.Errorf("assign process %d: %w", pid, err)
	}
	return h, nil
}

// TerminateAll ends all processes of the job.
func (j *Job) TerminateAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle != 0 {
		_ = windows.TerminateJobObject(j.handle, terminatedCode)
	}
}

// queryInfo fills info with facts about the job, or returns false. A list that is too long for info
// is truncated.
func (j *Job) queryInfo(class int32, info unsafe.Pointer, size uintptr) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle == 0 {
		return false
	}
	err := windows.QueryInformationJobObject(j.handle, class, uintptr(info), uint32(size), nil)
	return err == nil || errors.Is(err, windows.ERROR_MORE_DATA)
}

// AwaitEmpty waits until no process is left, at most for limit. It queries the job again after
// each message.
func (j *Job) AwaitEmpty(limit time.Duration) bool {
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		var a jobAccounting
		if j.queryInfo(windows.JobObjectBasicAccountingInformation, unsafe.Pointer(&a), unsafe.Sizeof(a)) && a.active == 0 {
			return true
		}
		select {
		case <-j.emptied:
		case <-over.C:
			return false
		}
	}
}

// maxMembers bounds the list of a job's processes.
const maxMembers = 4096

// MemberPIDs returns the pids of the job.
func (j *Job) MemberPIDs() []int {
	var list struct {
		assigned, listed uint32
		pids             [maxMembers]uintptr
	}
	if !j.queryInfo(windows.JobObjectBasicProcessIdList, unsafe.Pointer(&list), unsafe.Sizeof(list)) {
		return nil
	}
	pids := make([]int, 0, list.listed)
	for _, pid := range list.pids[:min(list.listed, maxMembers)] {
		pids = append(pids, int(pid))
	}
	return pids
}

// HasProcess reports whether a process belongs to the job.
func (j *Job) HasProcess(pid int) bool {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_INFORMATION, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(process)
	j.mu.Lock()
	defer j.mu.Unlock()
	var belongs int32
	ok := uintptr(0)
	if j.handle != 0 { // 0 would mean any job
		ok, _, _ = procIsProcessInJob.Call(uintptr(process), uintptr(j.handle), uintptr(unsafe.Pointer(&belongs)))
	}
	return ok != 0 && belongs != 0
}

// PeakMemory returns the most memory that one process of the job has used, in bytes; 0 when
// the system did not count.
func (j *Job) PeakMemory() int64 {
	return int64(j.CurrentLimits().PeakProcessMemoryUsed)
}

// MemoryBytes returns the sum of the working sets of all members except one, in bytes.
func (j *Job) MemoryBytes(but int) int64 {
	var sum int64
	for _, pid := range j.MemberPIDs() {
		if pid == but {
			continue
		}
		h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
		if err != nil {
			continue // it has just ended
		}
		sum += workingSet(h)
		_ = windows.CloseHandle(h)
	}
	return sum
}

// ReachedMemoryLimit returns the memory limit of the job in bytes if it was reached, otherwise 0.
func (j *Job) ReachedMemoryLimit() int64 {
	if !j.memoryLimitReached.Load() {
		return 0
	}
	return j.limits.Memory
}

// CurrentLimits returns the limits of the job as the system reports them.
func (j *Job) CurrentLimits() (l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) {
	j.queryInfo(windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&l), unsafe.Sizeof(l))
	return l
}

// Close ends the remaining processes, and readMessages. It is called once.
func (j *Job) Close() {
	j.mu.Lock()
	if j.handle != 0 {
		_ = windows.CloseHandle(j.handle)
		j.handle = 0
	}
	j.mu.Unlock()
	switch {
	case j.listenDone != nil:
		_ = windows.PostQueuedCompletionStatus(j.port, jobClosed, 0, nil)
		<-j.listenDone
	case j.port != 0:
		_ = windows.CloseHandle(j.port)
	}
}

// workingSet returns the bytes of physical memory that a process uses now, or 0 if unknown.
func workingSet(process windows.Handle) int64 {
	counters := struct { // PROCESS_MEMORY_COUNTERS
		size, faults  uint32
		peak, current uintptr
		_             [6]uintptr
	}{}
	counters.size = uint32(unsafe.Sizeof(counters))
	ok, _, _ := procGetProcessMemoryInfo.Call(uintptr(process), uintptr(unsafe.Pointer(&counters)), uintptr(counters.size))
	if ok == 0 {
		return 0
	}
	return int64(counters.current)
}

// Functions that x/sys lacks.
var (
	kernel32                 = windows.NewLazySystemDLL("kernel32.dll")
	procGetProcessMemoryInfo = kernel32.NewProc("K32GetProcessMemoryInfo")
	procIsProcessInJob       = kernel32.NewProc("IsProcessInJob")
)
