//go:build linux || darwin

package host_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
)

// roleEnv names what a re-executed test binary plays instead of the tests.
const roleEnv = "HOST_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	os.Unsetenv(roleEnv) // a grandchild must not play the same part
	if role != "direct" {
		host.StageMain()
	}
	switch role {
	case "":
		os.Exit(m.Run())
	case "supervise", "direct":
		superviseRole()
	default:
		fmt.Fprintln(os.Stderr, "no such role:", role)
		os.Exit(1)
	}
}

// superviseRole starts the worker given by its arguments, prints its pid, its
// output and its exit, then obeys standard input: "close" closes the process,
// end of file ends this one without.
func superviseRole() {
	if os.Args[1] == "delete-me" {
		os.Remove(os.Args[2])
		os.Args = os.Args[2:]
	}
	p, err := host.Start(&host.Command{Path: os.Args[1], Args: os.Args[2:], Env: os.Environ()})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID(), p.Staged())
	go io.Copy(os.Stdout, terminalReader{p})
	told := make(chan struct{})
	go func() {
		defer close(told)
		<-p.Exited()
		fmt.Println("ended:", p.Exit())
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		err := p.Close()
		<-told
		fmt.Println("closed:", err, p.Remains())
	}
	syscall.Exit(0) // like a crash: nothing is flushed or waited for
}

type terminalReader struct{ p *host.Process }

func (r terminalReader) Read(b []byte) (n int, err error) {
	closed := r.p.Terminal().Await(func() bool {
		n, err = r.p.Terminal().TryRead(b)
		return n > 0 || err != nil
	})
	if closed != nil {
		return 0, closed
	}
	return n, err
}

// patience is the one deadline of these tests: no fact takes this long.
const patience = 60 * time.Second

// eventually waits for a fact that nothing announces.
func eventually(t testing.TB, what string, fact func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("got no %s within %s", what, patience)
		}
	}
}

func within(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("got no %s within %s", what, patience)
	}
}

// output collects what a worker writes to its terminal.
type output struct {
	mu   sync.Mutex
	text []byte        // guarded by mu
	more chan struct{} // replaced when text grew; guarded by mu
	end  chan struct{} // closed at end of file
}

func collect(r io.Reader) *output {
	o := &output{more: make(chan struct{}), end: make(chan struct{})}
	go func() {
		defer close(o.end)
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			o.mu.Lock()
			o.text = append(o.text, b[:n]...)
			close(o.more)
			o.more = make(chan struct{})
			o.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return o
}

func (o *output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text), o.more
}

// line waits for a whole line that begins with prefix and returns its rest.
func (o *output) line(t testing.TB, prefix string) string {
	t.Helper()
	limit := time.After(patience)
	for {
		text, more := o.now()
		for l := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(l, prefix); ok && strings.HasSuffix(l, "\n") {
				return strings.TrimSpace(rest)
			}
		}
		select {
		case <-more:
		case <-o.end:
			if again, _ := o.now(); again == text {
				t.Fatalf("got end of file and %q, want a line %q", text, prefix+"…")
			}
		case <-limit:
			t.Fatalf("got %q within %s, want a line %q", text, patience, prefix+"…")
		}
	}
}

func (o *output) all(t testing.TB) string {
	t.Helper()
	within(t, "end of file on the terminal", o.end)
	text, _ := o.now()
	return text
}

// worker is a started process with its output.
type worker struct {
	*host.Process
	*output
}

func startCommand(t testing.TB, c *host.Command) worker {
	t.Helper()
	if c.Env == nil {
		c.Env = os.Environ()
	}
	p, err := host.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	w := worker{p, collect(terminalReader{p})}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if r := p.Remains(); len(r) > 0 {
			t.Errorf("got remaining processes %v, want none", r)
		}
	})
	return w
}

func startProgram(t testing.TB, name string, args ...string) worker {
	t.Helper()
	return startCommand(t, &host.Command{Path: program(t, name), Args: args})
}

func bash(t testing.TB, script string) worker { return startProgram(t, "bash", "-c", script) }

// python runs a script; each test that uses it needs the interpreter.
func python(t testing.TB, script string) worker {
	return startProgram(t, "python3", "-c", script)
}

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	if name != "python3" {
		return path
	}
	// What PATH finds may be a shell script that starts the interpreter.
	real, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skipf("%s does not run: %v", path, err)
	}
	return strings.TrimSpace(string(real))
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
