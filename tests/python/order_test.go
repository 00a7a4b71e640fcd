//go:build linux

package python_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestOutputOrder(t *testing.T) {
	t.Parallel()
	bulk := strings.Repeat("z", 100_000)
	kinds := []struct{ name, code, want string }{
		{"print", "print('a'); print('b', end=''); print('c')", "a\nbc\n"},
		{"os.system", "sys.stdout.write('a'); os.system('echo b'); print('c')", "ab\nc\n"},
		{"subprocess", "print('a'); subprocess.run(['sh', '-c', 'echo b; echo c >&2']); print('d')", "a\nb\nc\nd\n"},
		{"os.write", "print('a'); os.write(1, b'b\\n'); print('c')", "a\nb\nc\n"},
		{"puts", "print('a'); libc.puts(b'b'); print('c')", "a\nb\nc\n"},
		{"fork", "print('a')\npid = os.fork()\nif pid == 0: print('b'); os._exit(0)\nos.waitpid(pid, 0); print('c')", "a\nb\nc\n"},
		{"a thread", "print('a'); t = threading.Thread(target=print, args=('b',)); t.start(); t.join(); os.system('echo c'); print('d')", "a\nb\nc\nd\n"},
		{"an image", "os.system('echo a'); sys.displayhook(P()); os.system('echo c'); print('d')", "a\n[image]c\nd\n"},
		{"bulk", "os.system('echo a'); print(z); os.system('echo c'); None", "a\n" + bulk + "\nc\n"},
		{"stderr", "print('a', file=sys.stderr); os.system('echo b'); print('c'); sys.stderr.write('d\\n'); None", "<err>a\n</err>b\nc\n<err>d\n"},
	}
	eachPython(t, func(t *testing.T, o python.Options) {
		r := openSession(t, o)
		r.RunCode(t, `import ctypes, os, subprocess, sys, threading
libc = ctypes.CDLL(None)
z = 'z' * 100000
class P:
    def _repr_png_(self): return b'\x89PNG'`).WantTranscript(t, "")
		for round := range testmain.Rounds(30) {
			for _, k := range kinds {
				if res := r.RunCode(t, k.code); res.Transcript() != k.want || res.Outcome != "ok" {
					t.Fatalf("round %d, %s: got %.500q %s, want %.500q", round, k.name, res.Transcript(), res.Outcome, k.want)
				}
			}
		}
	})
}
