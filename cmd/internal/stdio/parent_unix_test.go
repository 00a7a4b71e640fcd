//go:build unix

package stdio

import (
	"os"
	"testing"
)

// Systems without notice of an end, such as Linux before 5.3, use this.
func TestPollProcess(t *testing.T) {
	t.Parallel()
	p := startBlocked(t)
	untilEnd, err := pollProcess(p.Process.Pid)
	if err != nil || untilEnd == nil {
		t.Fatalf("no process was found: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		untilEnd()
	}()
	select {
	case <-ended:
		t.Fatal("it is alive")
	default:
	}
	_ = p.Process.Kill()
	_ = p.Wait()
	waitClosed(t, ended)
	if again, err := pollProcess(p.Process.Pid); again != nil || err != nil {
		t.Errorf("a process that has ended was found: %v", err)
	}
	if untilEnd, err := pollProcess(os.Getppid()); untilEnd == nil || err != nil {
		t.Errorf("the parent was not found: %v", err)
	}
}
