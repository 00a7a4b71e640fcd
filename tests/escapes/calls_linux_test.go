package escapes

import "testing"

// The calls that the monitor makes on behalf of a program behave like the kernel's own.
func TestCalls(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	r := openSession(t, m, newSandbox(m))
	r.RunCode(t, "import ctypes, os, signal, subprocess; libc = ctypes.CDLL(None, use_errno=True)")
	for name, c := range map[string]struct{ code, want string }{
		"a link behind a link and dots": {
			"os.makedirs('sub/deep'); os.symlink('sub/deep', 'l'); os.symlink('g', 'sub/f'); open('l/../f', 'w').close(); print(os.path.exists('g'), os.path.exists('sub/g'))",
			"False True",
		},
		"a hard link of the target of such a link": {
			"os.makedirs('s/deep'); os.symlink('s/deep', 'k'); open('s/h', 'w').close(); os.symlink('h', 's/f'); libc.linkat(-100, b'k/../f', -100, b'hard', 0x400); _ = print(os.path.samefile('hard', 's/h'))",
			"True",
		},
		"settings that are renamed to themselves stay": {
			"subprocess.run(['git', 'init', '-q', 'a']); os.rename('a/.git/config', 'a/.git/config'); print(os.path.exists('a/.git/config'))",
			"True",
		},
		"a signal loses no call": { // the next call has the same arguments, but another path in memory
			`
nr, first = (83, []) if os.uname().machine == 'x86_64' else (34, [-100])
old = signal.signal(signal.SIGALRM, lambda *a: None); lost, name = [], ctypes.create_string_buffer(64)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
for i in range(5000):
    name.value = b'd%d' % i
    if libc.syscall(nr, *first, name, 0o755) == 0 and not os.path.isdir(name.value): lost.append(name.value)
signal.setitimer(signal.ITIMER_REAL, 0); signal.signal(signal.SIGALRM, old)
print(lost[:3])`,
			"[]",
		},
	} {
		t.Run(name, func(t *testing.T) { wantOutput(t, r, c.code, c.want) })
	}
}
