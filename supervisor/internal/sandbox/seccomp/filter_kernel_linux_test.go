package seccomp

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel of this machine answers as the lists say, on any architecture. Each call has arguments
// that no kernel would accept.
func TestFilter_Kernel(t *testing.T) {
	t.Parallel()
	if err := CheckArchitecture(); err != nil {
		t.Skip(err)
	}
	a := Architectures[runtime.GOARCH]
	answers := map[string]unix.Errno{}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with its filter
		done <- func() error {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				return err
			}
			if _, err := loadFilter(filterFor(a, false, nil), 0); err != nil {
				return err
			}
			for _, call := range slices.Concat(forbiddenCalls, unsupportedCalls) {
				if nr, ok := a.Calls[call]; ok && (call != "vhangup" || os.Getuid() != 0) {
					_, _, answers[call] = unix.RawSyscall6(uintptr(nr), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0))
				}
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for call, got := range answers {
		want := unix.EPERM
		if slices.Contains(unsupportedCalls, call) {
			want = unix.ENOSYS
		}
		if got != want {
			t.Errorf("%s: got %v, want %v", call, got, want)
		}
	}
	if len(answers) < 40 {
		t.Errorf("only %d calls were made", len(answers))
	}
}
