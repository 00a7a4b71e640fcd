package pty

import (
	"os/exec"
	"testing"
)

func TestChildWatchLimit(t *testing.T) {
	t.Parallel()
	worker := exec.Command("sleep", "3600")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	const extra = 5
	all := make([]ChildWatch, maxOpenWatches+extra)
	open := func() (n int) {
		for i := range all {
			all[i].mu.Lock()
			if all[i].opened {
				n++
			}
			all[i].mu.Unlock()
		}
		return n
	}
	for i := range all {
		all[i].HasNoOtherReader(worker.Process.Pid, &Terminal{})
		if !all[i].opened {
			t.Fatalf("watch %d has no open files after its use", i)
		}
	}
	if n := open(); n > maxOpenWatches { // other watches of this process may also be open
		t.Errorf("got %d watches with open files, want at most %d", n, maxOpenWatches)
	}
	if all[0].opened {
		t.Error("the first watch still has its files open")
	}
	if all[0].HasNoOtherReader(worker.Process.Pid, &Terminal{}); !all[0].opened {
		t.Error("the first watch did not open its files again")
	}
	for i := range all {
		all[i].Close()
	}
	if n := open(); n > 0 {
		t.Errorf("got %d watches with open files after they were closed", n)
	}
	if all[0].HasNoOtherReader(worker.Process.Pid, &Terminal{}); all[0].opened {
		t.Error("a closed watch has opened its files again")
	}
}
