package launch_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
)

// roleEnv names the role that a re-executed test binary runs instead of the tests: a worker of one of
// roles, or a supervisor of one.
const roleEnv = "HOST_TEST_ROLE"

// Names of this program under which it misbehaves as a monitor.
const (
	earlyExitProgram = "ends-early.exe"
	hangingProgram   = "hangs.exe"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "turnstone-monitor" {
		switch filepath.Base(os.Args[0]) {
		case earlyExitProgram:
			os.Exit(3)
		case hangingProgram:
			blockForever()
		}
	}
	launch.MonitorMain()
	role := os.Getenv(roleEnv)
	os.Unsetenv(roleEnv) // a grandchild must not run the same role
	if role == "" {
		os.Exit(m.Run())
	}
	play, ok := roles[role]
	if !ok {
		fmt.Println("no such role:", role)
		os.Exit(1)
	}
	play(os.Args[1:])
}

var roles = map[string]func(args []string){
	"supervise": runSupervisor,
	"forever":   func([]string) { blockForever() },
	"exit":      func(args []string) { code, _ := strconv.ParseUint(args[0], 0, 32); windows.ExitProcess(uint32(code)) },
	"impatient": func([]string) {
		c := newRoleCommand("forever")
		if filepath.Base(c.Path) == hangingProgram {
			c.Timeout = time.Second
		}
		_, err := launch.Start(c)
		fmt.Println(err)
	},
	"dying": func(args []string) {
		n, _ := strconv.Atoi(args[0])
		fmt.Println(launch.StartAndDie(newRoleCommand("forever"), n))
	},
	"allocate": func([]string) {
		var blocks [][]byte
		for {
			b := make([]byte, 64<<20)
			for i := range b {
				b[i] = 1
			}
			blocks = append(blocks, b)
		}
	},
	"lines":  printLines,
	"answer": writeAnswer,
	"family": startDescendants,
	"orphan": orphan,
	"interrupted": func(args []string) {
		caught := make(chan os.Signal, 10)
		signal.Notify(caught, os.Interrupt)
		if len(args) > 0 {
			child, _ := startRoleProcess(0, "interrupted")
			child.Wait()
		}
		fmt.Println("ready", os.Getpid())
		for range caught {
			fmt.Println("interrupted", os.Getpid())
		}
	},
	"parent": func([]string) {
		caught := make(chan os.Signal, 10)
		signal.Notify(caught, os.Interrupt)
		if _, err := startRoleProcess(0, "interrupted"); err != nil {
			fmt.Println(err)
		}
		fmt.Println("parent ready")
		for range caught {
			fmt.Println("parent interrupted")
		}
	},
	"awake": printInterrupts,
	"late": func([]string) {
		fmt.Println("pipe", strings.Split(os.Getenv("REPL_IPC"), ",")[0])
		bufio.NewReader(os.Stdin).ReadString('\n')
		writeAnswer(nil)
	},
	"handle": func(args []string) {
		h, _ := strconv.ParseUint(args[0], 10, 64)
		kind, err := windows.GetFileType(windows.Handle(h))
		fmt.Println("handle:", kind, err)
	},
	"read": func([]string) {
		in := bufio.NewScanner(os.Stdin)
		fmt.Println("ready")
		for in.Scan() {
			fmt.Printf("read %q\n", in.Text())
		}
		fmt.Println("end of input")
	},
	"modes": func([]string) {
		var before, after uint32
		in := windows.Handle(os.Stdin.Fd())
		fmt.Println("before", windows.GetConsoleMode(in, &before), before&windows.ENABLE_ECHO_INPUT)
		windows.SetConsoleMode(in, before|windows.ENABLE_ECHO_INPUT)
		windows.SetConsoleCP(437)
		windows.SetConsoleOutputCP(1252)
		fmt.Println("changed")
		_, c := openChannelEnds()
		c.Read(make([]byte, 1))
		fmt.Println("after", windows.GetConsoleMode(in, &after), after == before)
		keys, _ := windows.GetConsoleCP()
		text, _ := windows.GetConsoleOutputCP()
		fmt.Println("code pages", keys, text)
		blockForever()
	},
	"words": func(args []string) { fmt.Printf("words %q\n", args) },
	"where": func([]string) {
		dir, err := os.Getwd()
		fmt.Println("in", dir, err)
		for _, name := range []string{"PATH", "Second", "SYSTEMROOT"} {
			fmt.Println(name, "=", os.Getenv(name))
		}
	},
}

func blockForever() {
	for {
		windows.SleepEx(windows.INFINITE, false)
	}
}

func printLines(args []string) {
	n, _ := strconv.Atoi(args[0])
	out := bufio.NewWriter(os.Stdout)
	for i := range n {
		fmt.Fprintln(out, "line", i)
	}
	out.Flush()
	fmt.Fprintln(os.Stderr, "to stderr: größer")
}

// openChannelEnds opens this worker's ends of the channel.
func openChannelEnds() (nonce string, channel io.ReadWriteCloser) {
	parts := strings.Split(os.Getenv("REPL_IPC"), ",")
	in, err := os.OpenFile(parts[0], os.O_RDONLY, 0)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out, err := os.OpenFile(parts[1], os.O_WRONLY, 0)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return parts[2], channelEnds{in, out}
}

type channelEnds struct{ in, out *os.File }

func (e channelEnds) Read(b []byte) (int, error)  { return e.in.Read(b) }
func (e channelEnds) Write(b []byte) (int, error) { return e.out.Write(b) }
func (e channelEnds) Close() error                { e.out.Close(); return e.in.Close() }

func writeAnswer([]string) {
	nonce, c := openChannelEnds()
	b := make([]byte, 100)
	n, _ := c.Read(b)
	c.Write([]byte(nonce + string(b[:n])))
	blockForever()
}

// printInterrupts prints which interrupts arrive by its event, and which through the console.
func printInterrupts([]string) {
	caught := make(chan os.Signal, 10)
	signal.Notify(caught, os.Interrupt)
	go func() {
		for range caught {
			fmt.Println("CTRL_C")
		}
	}()
	nonce := strings.Split(os.Getenv("REPL_IPC"), ",")[2]
	name, _ := windows.UTF16PtrFromString(`Local\turnstone-interrupt-` + nonce)
	event, err := windows.OpenEvent(windows.SYNCHRONIZE, false, name)
	fmt.Println("ready", err)
	for {
		if _, err := windows.WaitForSingleObject(event, windows.INFINITE); err != nil {
			fmt.Println(err)
			blockForever()
		}
		fmt.Println("woken")
	}
}

// startRoleProcess starts this program again in a role.
func startRoleProcess(flags uint32, role string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: flags}
	return cmd, cmd.Start()
}

// startDescendants starts every kind of descendant that is known to outlive its parents, prints
// their pids, and blocks.
func startDescendants([]string) {
	const breakaway = windows.CREATE_BREAKAWAY_FROM_JOB
	for name, flags := range map[string]uint32{
		"child":    0,
		"detached": windows.DETACHED_PROCESS,
		"group":    windows.CREATE_NEW_PROCESS_GROUP,
		"console":  windows.CREATE_NO_WINDOW,
	} {
		cmd, err := startRoleProcess(flags, "forever")
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s=%d\n", name, cmd.Process.Pid)
	}
	if cmd, err := startRoleProcess(breakaway, "forever"); err == nil {
		fmt.Printf("breakaway=%d\n", cmd.Process.Pid)
	}
	if cmd, err := startRoleProcess(windows.DETACHED_PROCESS, "orphan"); err == nil {
		cmd.Wait()
	}
	fmt.Println("complete")
	blockForever()
}

// orphan leaves a process behind whose parent has ended.
func orphan([]string) {
	cmd, err := startRoleProcess(windows.DETACHED_PROCESS, "forever")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("orphan=%d\n", cmd.Process.Pid)
}

// runSupervisor starts the role given by its arguments and prints its output. At the end of standard
// input, this program ends without Close.
func runSupervisor(args []string) {
	p, err := launch.Start(newRoleCommand(args[0], args[1:]...))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("worker=%d\n", p.PID())
	go io.Copy(os.Stdout, terminalReader{p})
	io.Copy(io.Discard, os.Stdin)
	windows.ExitProcess(0) // like a crash: nothing is flushed or waited for
}

func newRoleCommand(role string, args ...string) *launch.StartConfig {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &launch.StartConfig{Path: self, Args: args, Env: append(os.Environ(), roleEnv+"="+role)}
}

// plainText returns text without escape sequences, with which a pseudo console draws its output.
func plainText(s string) string {
	var text strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "\x1b["):
			for i += 2; i < len(s) && (s[i] < '@' || s[i] > '~'); i++ {
			}
		case s[i] != '\r':
			text.WriteByte(s[i])
		}
	}
	return text.String()
}
func startRole(t testing.TB, role string, args ...string) testWorker {
	t.Helper()
	return startCommand(t, newRoleCommand(role, args...))
}
