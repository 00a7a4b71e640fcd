package stdio

import (
	"fmt"
	"os"
)

// WatchParent returns a channel that is closed when the parent has ended. pid is the process to
// watch; 0 means the process that started this one. A pid that is known to the caller is safer: a
// parent that ends before this call cannot be mistaken for the process that adopts its children.
func WatchParent(pid int) (ended <-chan struct{}, err error) {
	if pid < 0 || pid == os.Getpid() {
		return nil, fmt.Errorf("process %d is not the parent", pid)
	}
	isDirect := pid == 0 || pid == os.Getppid()
	if pid == 0 {
		pid = os.Getppid()
	}
	wait, err := openProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("cannot watch process %d, the parent: %w", pid, err)
	}
	gone := make(chan struct{})
	if wait == nil || isDirect && os.Getppid() != pid { // it ended before openProcess, and its number may have a new owner
		close(gone)
		return gone, nil
	}
	go func() {
		defer close(gone)
		wait()
	}()
	return gone, nil
}
