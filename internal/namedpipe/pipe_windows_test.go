package namedpipe_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/namedpipe"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// listenEnv names a pipe. With it, this program prints "listening" and listens there
// instead of running tests.
const listenEnv = "PIPE_TEST_LISTEN"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Programs: []testmain.Program{{Variable: listenEnv, Main: runListener}}, Serial: true})
}

func runListener(name string) (status int) {
	l, err := namedpipe.Listen(name)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("listening")
	for {
		if _, err := l.Accept(); err != nil {
			return 1
		}
	}
}

// testTimeout bounds every wait.
const testTimeout = 30 * time.Second

// newPipeName returns a pipe name that only this test uses.
func newPipeName(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf(`\\.\pipe\turnstone-test-%d-%s`, os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
}

func newListener(t *testing.T, name string) *namedpipe.Listener {
	t.Helper()
	l, err := namedpipe.Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dialPipe(t *testing.T, name string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	c, err := namedpipe.Dial(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newConnPair returns a connection: the client's end, and the listener's.
func newConnPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := newListener(t, newPipeName(t))
	client = dialPipe(t, newPipeName(t))
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func TestConn(t *testing.T) {
	t.Run("carries both directions at once", func(t *testing.T) {
		client, server := newConnPair(t)
		text := bytes.Repeat([]byte("0123456789abcde\n"), 1<<19) // 8 MiB, far more than a pipe holds
		var wg sync.WaitGroup
		for _, c := range []net.Conn{client, server} {
			wg.Go(func() {
				if n, err := c.Write(text); n != len(text) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			})
			wg.Go(func() {
				got := make([]byte, len(text))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, text) {
					t.Errorf("the received bytes differ from the written ones: %v", err)
				}
			})
		}
		wg.Wait()
	})

	t.Run("returns the usual errors at its end", func(t *testing.T) {
		client, server := newConnPair(t)
		_ = server.SetReadDeadline(time.Now())
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		_ = server.SetWriteDeadline(time.Now().Add(time.Millisecond))
		if _, err := server.Write(make([]byte, 10*64<<10)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("nobody reads: %v", err)
		}
		_ = client.Close()
		_ = server.SetDeadline(time.Time{})
		if n, err := server.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the client is gone: %d, %v", n, err)
		}
		if _, err := server.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the client is gone: %v", err)
		}
		_ = server.Close()
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})

	t.Run("closing ends a pending read and write", func(t *testing.T) {
		client, _ := newConnPair(t)
		ended := make(chan error, 2)
		go func() {
			_, err := client.Read(make([]byte, 1))
			ended <- err
		}()
		go func() {
			_, err := client.Write(make([]byte, 1<<20))
			ended <- err
		}()
		_ = client.Close()
		for range 2 {
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrClosed) {
					t.Errorf("got %v", err)
				}
			case <-time.After(testTimeout):
				t.Fatal("it does not end")
			}
		}
	})

	t.Run("data written before Close can be read", func(t *testing.T) {
		client, server := newConnPair(t)
		if _, err := server.Write([]byte("the last word")); err != nil {
			t.Fatal(err)
		}
		_ = server.Close()
		if got, err := io.ReadAll(client); string(got) != "the last word" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestListener(t *testing.T) {
	t.Run("serves many clients at once", func(t *testing.T) {
		l := newListener(t, newPipeName(t))
		const clients = 50
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(c, c)
					_ = c.Close()
				}()
			}
		}()
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
				defer cancel()
				c, err := namedpipe.Dial(ctx, newPipeName(t))
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(testTimeout))
				want := fmt.Sprintln("client", i)
				_, _ = io.WriteString(c, want)
				if got, err := bufio.NewReader(c).ReadString('\n'); got != want || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		wg.Wait()
	})

	t.Run("closing ends Accept", func(t *testing.T) {
		for i := range 200 {
			l, err := namedpipe.Listen(newPipeName(t))
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						ended <- err
						return
					}
					_ = c.Close()
				}
			}()
			if i%2 == 0 { // while the next instance is being created
				_ = dialPipe(t, newPipeName(t)).Close()
			}
			closed := make(chan struct{})
			go func() { defer close(closed); _ = l.Close() }()
			select {
			case <-closed:
			case <-time.After(testTimeout):
				t.Fatal("Close does not return")
			}
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Fatalf("Accept ended with %v", err)
			}
		}
	})
}

func TestListen(t *testing.T) {
	t.Run("names the process that has the pipe", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), testexec.OwnPath())
		cmd.Env = append(os.Environ(), listenEnv+"="+newPipeName(t))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		_, err = namedpipe.Listen(newPipeName(t))
		if served, ok := errors.AsType[*namedpipe.InUseError](err); !ok || int(served.PID) != cmd.Process.Pid {
			t.Errorf("got %v, want an error that names process %d", err, cmd.Process.Pid)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		_ = newListener(t, newPipeName(t)).Close()
		if _, err := namedpipe.Dial(t.Context(), newPipeName(t)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("nobody listens: %v", err)
		}
	})

	t.Run("does not take over a pipe that accepts no clients", func(t *testing.T) {
		_ = newListener(t, newPipeName(t))
		waiting := dialPipe(t, newPipeName(t)) // this client is never accepted
		_, err := namedpipe.Listen(newPipeName(t))
		if served, ok := errors.AsType[*namedpipe.InUseError](err); !ok || served.PID != 0 {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := namedpipe.Dial(ctx, newPipeName(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a timeout", err)
		}
		_ = waiting.Close()
	})

	t.Run("waits for a listener that is about to end", func(t *testing.T) {
		first := newListener(t, newPipeName(t))
		_ = dialPipe(t, newPipeName(t))
		kept, err := first.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
		time.AfterFunc(100*time.Millisecond, func() { _ = kept.Close() })
		_ = newListener(t, newPipeName(t))
	})

	t.Run("gives access to the user only", func(t *testing.T) {
		newListener(t, newPipeName(t))
		name16, err := windows.UTF16PtrFromString(newPipeName(t))
		if err != nil {
			t.Fatal(err)
		}
		h, err := windows.CreateFile(name16, windows.READ_CONTROL, 0, nil, windows.OPEN_EXISTING, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer windows.CloseHandle(h)
		d, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		user, err := windows.GetCurrentProcessToken().GetTokenUser()
		if err != nil {
			t.Fatal(err)
		}
		sid := user.User.Sid.String()
		got := d.String()
		if !strings.HasPrefix(got, "O:"+sid+"D:P(A;;") || !strings.HasSuffix(got, ";;;"+sid+")") || strings.Count(got, "(") != 1 {
			t.Errorf("got %s, want access for %s only", got, sid)
		}
	})
}

// newForeignPipe creates a pipe as another user would.
func newForeignPipe(t *testing.T, descriptor string) {
	t.Helper()
	d, err := windows.SecurityDescriptorFromString(descriptor)
	if err != nil {
		t.Fatal(err)
	}
	a := &windows.SecurityAttributes{Length: 24, SecurityDescriptor: d}
	name16, err := windows.UTF16PtrFromString(newPipeName(t))
	if err != nil {
		t.Fatal(err)
	}
	h, err := windows.CreateNamedPipe(name16, windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED, 0, 2, 100, 100, 0, a)
	if errors.Is(err, windows.ERROR_INVALID_OWNER) {
		t.Skip("only an administrator can make a pipe in the name of somebody else")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = windows.CloseHandle(h) })
}

func TestDial_ForeignPipe(t *testing.T) {
	for reason, use := range map[string]func(t *testing.T) error{
		"by a client":   func(t *testing.T) error { _, err := namedpipe.Dial(t.Context(), newPipeName(t)); return err },
		"by a listener": func(t *testing.T) error { _, err := namedpipe.Listen(newPipeName(t)); return err },
	} {
		t.Run(reason, func(t *testing.T) {
			newForeignPipe(t, "O:BAD:(A;;GA;;;WD)")
			err := use(t)
			if _, served := errors.AsType[*namedpipe.InUseError](err); served || err == nil || !strings.Contains(err.Error(), "another user (S-1-5-32-544)") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPipeName_Invalid(t *testing.T) {
	for _, bad := range []string{
		``, `daemon.sock`, `C:\daemon.sock`, `\\.\pipe\`, `\\.\pipe\a\b`, `\\server\pipe\a`, `//./pipe/a`, `\\.\pipe\` + strings.Repeat("x", 256), "\\\\.\\pipe\\a\x00b",
	} {
		if _, err := namedpipe.Dial(t.Context(), bad); err == nil || !strings.Contains(err.Error(), `name it \\.\pipe\NAME`) {
			t.Errorf("dialling %q: %v", bad, err)
		}
		if _, err := namedpipe.Listen(bad); err == nil || !strings.Contains(err.Error(), `name it \\.\pipe\NAME`) {
			t.Errorf("listening at %q: %v", bad, err)
		}
	}
	if !strings.HasPrefix(namedpipe.DefaultName(), `\\.\pipe\turnstone-S-1-5-`) {
		t.Errorf("the default is %s", namedpipe.DefaultName())
	}
}
