package cmdkit

import "testing"

func TestExitStatus(t *testing.T) {
	type workerEnd struct {
		code   int
		signal string
	}
	for end, want := range map[workerEnd]struct{ unix, windows int }{
		{code: 0}:                        {0, 0},
		{code: 7}:                        {7, 7},
		{code: 256}:                      {0, 256},
		{code: 512}:                      {0, 512},
		{code: 1603}:                     {67, 1603},
		{code: 3010}:                     {194, 3010},
		{code: 0xffffffff}:               {255, 0xffffffff}, // sys.exit(-1)
		{code: 0xc0000005}:               {5, 0xc0000005},
		{code: -1, signal: "SIGKILL"}:    {137, 137},
		{code: -1, signal: "SIGTERM"}:    {143, 143},
		{code: -1, signal: "SIGSTRANGE"}: {1, 1},
		{code: -1}:                       {1, 1},
	} {
		if got := maskedExitStatus(end.code, end.signal, 0xff); got != want.unix {
			t.Errorf("%+v on Unix: got %d, want %d", end, got, want.unix)
		}
		if got := maskedExitStatus(end.code, end.signal, 0xffffffff); got != want.windows {
			t.Errorf("%+v on Windows: got %d, want %d", end, got, want.windows)
		}
	}
}
