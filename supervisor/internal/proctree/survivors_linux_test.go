package proctree

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// A killed process that is about to end does not count as a survivor.
func TestAwaitProcessEnd(t *testing.T) {
	t.Parallel()
	dies, stays, zombie := exec.Command("sleep", "3600"), exec.Command("sleep", "3600"), exec.Command("true")
	for _, c := range []*exec.Cmd{dies, stays, zombie} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	if got, want := AwaitProcessEnd([]int{stays.Process.Pid}, 0), []int{stays.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	left := make(chan []int)
	go func() { left <- AwaitProcessEnd([]int{dies.Process.Pid, zombie.Process.Pid}, time.Hour) }()
	if err := dies.Process.Kill(); err != nil { // afterwards it is still a zombie
		t.Fatal(err)
	}
	if got := <-left; len(got) > 0 {
		t.Errorf("got %v, want none", got)
	}
}
