//go:build linux

package programs

import (
	"strings"
	"testing"
	"time"
)

// slowServer is code for Python that defines slow_server. It serves bytes at a URL on the loopback
// interface, 20 pieces in two seconds, and returns the URL without its path.
const slowServer = `
import http.server, threading, time
def slow_server(data):
    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            piece = len(data) // 20 + 1
            for i in range(0, len(data), piece):
                self.wfile.write(data[i:i + piece]); self.wfile.flush(); time.sleep(.1)
        def log_message(self, *_): pass
    server = http.server.HTTPServer(('127.0.0.1', 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f'http://127.0.0.1:{server.server_port}'
`

// pipDownload lets pip download a wheel of 2 MB, with its progress bar.
const pipDownload = slowServer + `
import io, os, zipfile
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, 'w') as z:
    z.writestr('demo/data', os.urandom(2 << 20))
    z.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n')
    z.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: demo\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    z.writestr('demo-1.0.dist-info/RECORD', '')
import subprocess
url = slow_server(wheel.getvalue()) + '/demo-1.0-py3-none-any.whl'
print('status', subprocess.run(['{python}', '-m', 'pip', 'install', '--disable-pip-version-check', '--no-cache-dir', '--no-deps', '--target', 'installed', url]).returncode)`

// busyReader draws a spinner in one thread. In the other it looks for a key between its computations.
const busyReader = `
import select, sys, threading, time
end = time.time() + 3
def spin():
    while time.time() < end:
        print('\r|/-\\'[:2], end='', flush=True); time.sleep(.1)
threading.Thread(target=spin).start()
while time.time() < end:
    select.select([sys.stdin], [], [], .02)
    sum(range(1000000))`

// gitClone draws what git clone draws.
const gitClone = `
import sys, time
for i in range(101):
    print(f'\rReceiving objects: {i:3}% ({i}/100), {i}.0 MiB | 1.0 MiB/s', end='', file=sys.stderr, flush=True); time.sleep(.02)
print(', done.', file=sys.stderr)`

// A workTest is a program that works for some seconds and asks nothing.
type workTest struct {
	name  string
	needs []string
	start string
	shows string // at its end
}

var workTests = []workTest{
	{"tqdm", nil, "import time, tqdm\nfor i in tqdm.tqdm(range(100)): time.sleep(.02)\nprint('end')", "end"},
	{"rich status", nil, runPython("import time\nfrom rich.console import Console\nwith Console(force_terminal=True).status('working'): time.sleep(2)"), "status 0"},
	{"rich progress", nil, runPython("import time\nfrom rich.progress import track\nfor i in track(range(100)): time.sleep(.02)"), "status 0"},
	{"sleep", nil, runProgram("sleep", "2"), "status 0"},
	{"watch", []string{"watch"}, runProgram("timeout", "--foreground", "3", "watch", "-n1", "date"), "status 124"},
	{"a server of asyncio", nil, runPython("import asyncio\nasync def main():\n await asyncio.start_server(print, '127.0.0.1', 0); await asyncio.sleep(2)\nasyncio.run(main())"), "status 0"},
	{"asyncio in the session's own code", nil, "import asyncio\nawait asyncio.sleep(2)\nprint('end')", "end"},
	{"a server of node", []string{"node"}, runNode("require('http').createServer().listen(0, '127.0.0.1'); setTimeout(process.exit, 2000)"), "status 0"},
	{"spinner of @clack", []string{"node"}, runNode("import('{clack}').then(async m => { const s = m.spinner(); s.start('working'); await new Promise(r => setTimeout(r, 2500)); s.stop('worked') })"), "status 0"},
	{"bubbletea without a question", []string{"bin/goprompt"}, runProgram("{bin}/goprompt", "bubbletea-work"), "answer: done"},
	{"pip install", nil, pipDownload, "status 0"},
	{"a download loop", nil, slowServer + "import urllib.request\nwith urllib.request.urlopen(slow_server(b'x' * 1000)) as f:\n    while f.read(50): print('.', end='', flush=True)\nprint('end')", "end"},
	{"curl", []string{"curl"}, slowServer + runProgram("true") + "\nprint('status', subprocess.run(['curl', '-o', 'file', slow_server(b'x' * 1000)]).returncode)", "100"},
	{"a busy program that looks for keys", nil, runPython(busyReader), "status 0"},
	{"git clone", nil, runPython(gitClone), "done."},
	{"dd", []string{"dd"}, runShell("{ sleep 1; head -c 1000000 /dev/zero; sleep 1; } | dd of=file bs=1000 status=progress"), "status 0"},
	{"tail -f", nil, runShell("touch file; timeout --foreground 2 tail -f file"), "status 124"},
	{"a reader of a pipe", nil, runShell("sleep 2 | cat"), "status 0"},
	{"a loop that looks for keys, and draws", nil, "import select, sys\nfor i in range(30):\n    print('.', end='', flush=True)\n    select.select([sys.stdin], [], [], .1)\nprint('end')", "end"},
	{"a loop that looks for keys without waiting", nil, "import select, sys, time\nend = time.time() + 2\nwhile time.time() < end:\n    select.select([sys.stdin], [], [], 0); time.sleep(.01)\nprint('end')", "end"},
}

// A program that works is not said to want input: else a model would answer it, and would not wait
// for its result.
func TestWork(t *testing.T) {
	t.Parallel()
	programsDir(t)
	for _, test := range workTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			code := expandPaths(t, test.start, test.needs)
			u := newUser(t, "")
			u.prepare(false)
			reply := u.repl(stepTimeout, "input", code)
			if questionStates.MatchString(reply) || !strings.Contains(reply, test.shows) {
				t.Fatalf("want the result, with %q and without a question:\n%s", test.shows, u.transcript())
			}
			u.wantIdle()
		})
	}

	// A state that says "listens" is allowed while it works, but no state that asks for an answer.
	t.Run("is not said to want an answer when the call returns earlier", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, "")
		u.prepare(false)
		reply := u.repl(1500*time.Millisecond, "input", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', "+pythonString(busyReader)+"])\nprint('end')")
		if strings.Contains(reply, "waiting for") || strings.Contains(reply, "waits for") {
			t.Errorf("got %q", reply)
		}
		u.wantShown(u.output(stepTimeout), "end")
		u.wantIdle()
	})
}
