//go:build linux || darwin

package python_test

import (
	"strings"
	"testing"
)

func TestDescriptors(t *testing.T) {
	t.Parallel()
	const one = "[descriptor 1 was closed: it is the terminal again]\n"
	eachPython(t, func(t *testing.T, s workerSetup) {
		for name, inputs := range map[string][][2]string{
			"standard output is restored": {
				{"with open(1, 'w') as f: _ = f.write('hi\\n')", "hi\n" + one},
				{"1+1", "2\n"},
				{"import os; print('printed'); _ = os.system('echo child')", "printed\nchild\n"},
				{"f = open('/dev/null', 'w'); f.fileno() > 2", "True\n"},
				{"os.close(1)", ""}, // the notice was shown before
				{"print('x' * 5000 == 'y', 2)", "False 2\n"},
			},
			"standard error is restored": {
				{"import os, sys; os.close(2)", "[descriptor 2 was closed: it is the terminal again]\n"},
				{"print('err', file=sys.stderr); _ = os.system('echo child >&2')", "err\nchild\n"},
			},
			"a file that reuses the number gets no output of the session": {
				{"import os, sys, tempfile; d = tempfile.mkdtemp()\nos.close(1)\ng = open(d + '/g', 'w'); n = g.fileno()", "[descriptor 1 was closed, and belongs to a file of the code now: the session goes on with the terminal]\n"},
				{"n, 'shown'", "(1, 'shown')\n"},
				{"print('printed'); print('z' * 6000 == 1)", "printed\nFalse\n"},
				{"_ = g.write('its own'); g.close()", one},
				{"open(d + '/g').read()", "'its own'\n"},
				{"_ = os.system('echo child'); print('again')", "child\nagain\n"},
			},
			"a terminal that a child made nonblocking blocks again": {
				{"import fcntl, os; _ = fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_NONBLOCK)", ""},
				{"os.get_blocking(0), os.get_blocking(1)", "(True, True)\n"},
			},
			"a redirection stays": {
				{"import os, sys, tempfile; f = tempfile.TemporaryFile(); saved = os.dup(1); _ = os.dup2(f.fileno(), 1)", ""},
				{"print('into the file')", ""},
				{"_ = os.dup2(saved, 1); f.seek(0); f.read()", "b'into the file\\n'\n"},
			},
			"all open descriptors are closed": {
				{"import os; os.closerange(0, 1024)", "[descriptor 0 was closed: it is the terminal again]\n[descriptor 1 was closed: it is the terminal again]\n[descriptor 2 was closed: it is the terminal again]\n"},
				{"print('alive'); _ = os.system('echo child')", "alive\nchild\n"},
			},
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); wantOutputs(t, s, inputs...) })
		}
		t.Run("input continues", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, s)
			w.RunCode("import os; os.close(0)").WantOutput(t, "[descriptor 0 was closed: it is the terminal again]\n")
			if r := w.RunCode("input('? ')", "answer"); r.OutputText() != "? 'answer'\n" {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
			w.RunCode("os.close(0); f = open('/dev/null'); f.fileno()").WantOutput(t, "0\n[descriptor 0 was closed, and belongs to a file of the code now: the session goes on with the terminal]\n")
			if r := w.RunCode("input('? ')", "answer"); r.OutputText() != "? 'answer'\n" {
				t.Errorf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
		t.Run("a worker without its channel ends with a reason", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, s)
			r := w.RunCode("import os; os.closerange(3, 4096)")
			if r.Idle != nil || !strings.Contains(r.OutputText(), "[the code has closed descriptors ") {
				t.Errorf("got %q %+v %+v", r.Transcript(), r.Idle, r.End)
			}
		})
	})
}
