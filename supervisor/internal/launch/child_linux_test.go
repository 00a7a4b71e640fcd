package launch

import (
	"os"
	"os/exec"
	"testing"
)

func TestChildKillAfterReap(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	c, err := startChild(program, []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	c.wait()
	if !c.reaped {
		t.Error("the child is not marked as reaped")
	}
	c.kill() // its pid may have been reused
}
