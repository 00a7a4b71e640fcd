package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A job holds everything of one session and ends it: when told to, and when its
// last handle closes, which the kernel does for a supervisor that was killed.
// Nothing breaks away from it.
type job struct {
	port windows.Handle // where the kernel says that the job is empty

	mu     sync.Mutex
	handle windows.Handle // never inherited, never duplicated; 0 once closed; guarded by mu
}

// Of <winnt.h>; x/sys has neither.
type jobPort struct {
	key  uintptr
	port windows.Handle
}

type jobAccounting struct {
	userTime, kernelTime, periodUserTime, periodKernelTime int64
	pageFaults, total, active, terminated                  uint32
}

// terminatedCode is the exit status of what a job ends.
const terminatedCode = 1

func newJob() (_ *job, err error) {
	j := &job{}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if j.handle, err = windows.CreateJobObject(nil, nil); err != nil {
		return nil, err
	}
	// A crash ends a process at once: nobody is there to answer a dialog.
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION,
		},
	}
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
	return j, nil
}

// take puts a process into the job and returns a handle to wait for it. The
// caller keeps the process from being forgotten meanwhile. What fails to be
// taken is ended.
func (j *job) take(pid uint32) (windows.Handle, error) {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.SYNCHRONIZE, false, pid)
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", pid, err)
	}
	if err := windows.AssignProcessToJobObject(j.handle, h); err != nil {
		_ = windows.TerminateProcess(h, terminatedCode)
		_ = windows.CloseHandle(h)
		return 0, fmt.Errorf("assign process %d: %w", pid, err)
	}
	return h, nil
}

func (j *job) terminate() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle != 0 {
		_ = windows.TerminateJobObject(j.handle, terminatedCode)
	}
}

// query asks the job; false when there is no answer. Of a list that is longer
// than there is room, it is the beginning.
func (j *job) query(class int32, info unsafe.Pointer, size uintptr) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle == 0 {
		return false
	}
	err := windows.QueryInformationJobObject(j.handle, class, uintptr(info), uint32(size), nil)
	return err == nil || errors.Is(err, windows.ERROR_MORE_DATA)
}

// awaitEmpty waits until no process is left, at most for limit. The completion
// port wakes it; what counts is what the job says.
func (j *job) awaitEmpty(limit time.Duration) bool {
	for deadline := time.Now().Add(limit); ; {
		var a jobAccounting
		if j.query(windows.JobObjectBasicAccountingInformation, unsafe.Pointer(&a), unsafe.Sizeof(a)) && a.active == 0 {
			return true
		}
		rest := time.Until(deadline)
		if rest <= 0 {
			return false
		}
		var message uint32
		var key uintptr
		var o *windows.Overlapped // not a pointer: a process id
		_ = windows.GetQueuedCompletionStatus(j.port, &message, &key, &o, uint32(rest.Milliseconds())+1)
	}
}

// maxMembers bounds the processes that are listed of a job.
const maxMembers = 4096

// members is the pids of the job.
func (j *job) members() []int {
	var list struct {
		assigned, listed uint32
		pids             [maxMembers]uintptr
	}
	if !j.query(windows.JobObjectBasicProcessIdList, unsafe.Pointer(&list), unsafe.Sizeof(list)) {
		return nil
	}
	pids := make([]int, 0, list.listed)
	for _, pid := range list.pids[:min(list.listed, maxMembers)] {
		pids = append(pids, int(pid))
	}
	return pids
}

func (j *job) has(pid int) bool { return slices.Contains(j.members(), pid) }

// peak is the most memory that one process of the job has used, in bytes; 0 when
// the system did not count.
func (j *job) peak() int64 {
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if !j.query(windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&limits), unsafe.Sizeof(limits)) {
		return 0
	}
	return int64(limits.PeakProcessMemoryUsed)
}

// memory is the sum of the working sets of all members but one, in bytes.
func (j *job) memory(but int) int64 {
	var sum int64
	for _, pid := range j.members() {
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

// close ends what is left of the job. It is for the goroutine that waits for it.
func (j *job) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range []*windows.Handle{&j.handle, &j.port} {
		if *h != 0 {
			_ = windows.CloseHandle(*h)
			*h = 0
		}
	}
}

// workingSet is what a process has of the memory now, in bytes; 0 when it cannot
// be known.
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

// What x/sys does not have.
var (
	kernel32                  = windows.NewLazySystemDLL("kernel32.dll")
	procGetProcessMemoryInfo  = kernel32.NewProc("K32GetProcessMemoryInfo")
	procSetConsoleTitle       = kernel32.NewProc("SetConsoleTitleW")
	procSetConsoleCtrlHandler = kernel32.NewProc("SetConsoleCtrlHandler")
)
