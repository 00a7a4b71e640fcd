package supervisor_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// supervisor/internal/launch tests how all kinds of processes end; this test covers the ends that a
// session initiates.
func TestSession_EndsChildren(t *testing.T) {
	for _, how := range []string{"reset", "closed", "the worker ends"} {
		t.Run(how, func(t *testing.T) {
			s := openSession(t, nil, fakeSpec(nil))
			_, r := runTurn(t, s, "fork\nfork\npid")
			var alive []windows.Handle
			for line := range strings.Lines(outputText(r.Events)) {
				pid, err := strconv.Atoi(strings.TrimSpace(line))
				if err != nil {
					t.Fatalf("got %q, want process ids", outputText(r.Events))
				}
				h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
				if err != nil {
					t.Fatal(err)
				}
				defer windows.CloseHandle(h)
				alive = append(alive, h)
			}
			if len(alive) != 3 {
				t.Fatalf("got %d processes, want two children and the worker", len(alive))
			}
			switch how {
			case "reset":
				if err := s.Reset(deadlineContext(t)); err != nil {
					t.Fatal(err)
				}
			case "closed":
				if err := s.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
			default:
				runTurn(t, s, "die 3")
			}
			for i, h := range alive {
				if got, err := windows.WaitForSingleObject(h, 0); got != windows.WAIT_OBJECT_0 {
					t.Errorf("process %d of 3 still runs: %v", i+1, err)
				}
			}
		})
	}
}
