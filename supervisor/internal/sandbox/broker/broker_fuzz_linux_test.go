package broker

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/egressclient"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// newBrokerAt returns a broker of this process, whose programs see a directory as the root.
func newBrokerAt(t *testing.T, root string) *Broker {
	t.Helper()
	b := New(&plan.Plan{})
	b.pathBuffers.New = func() any { return new(workerview.UserPath) }
	for path, to := range map[string]*int{root: &b.RootFD, "/proc": &b.ProcFD, "/proc/self/fd": &b.SelfFilesFD} {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		*to = fd
	}
	return b
}

// FuzzNotification gives the monitor the numbers and memory of a hostile program. No input may make
// a call run forever, or create a file outside of the session's root or with a protected name.
func FuzzNotification(f *testing.F) {
	calls := fileCalls()
	numbers := make([]int32, 0, len(calls))
	for nr := range calls {
		numbers = append(numbers, nr)
	}
	slices.Sort(numbers)
	for i, nr := range numbers {
		f.Add(uint8(i), []byte("/sub/.vscode"), []byte("/SUB/../.ENVRC/"), int32(unix.AT_FDCWD), uint32(unix.O_CREAT|unix.O_WRONLY), uint32(0o600))
		f.Add(uint8(i), []byte("/loop"), []byte("/file"), int32(unix.AT_FDCWD), uint32(unix.O_CREAT|unix.O_WRONLY), uint32(0o600))
		f.Add(uint8(i), []byte("/near"), []byte("/out/x"), int32(-1), uint32(unix.O_CREAT|unix.O_RDWR), uint32(0))
		if calls[nr].name == "openat" {
			f.Add(uint8(i), []byte("/dev/fd/0"), []byte{}, int32(0), uint32(unix.O_CREAT), uint32(0))
		}
	}
	f.Fuzz(func(t *testing.T, call uint8, first, second []byte, dir int32, flags, mode uint32) {
		made := filepath.Join(t.TempDir(), "made")
		root := filepath.Join(made, "root")
		here, err := os.Getwd()
		if err == nil {
			err = os.MkdirAll(filepath.Join(root, here), 0o755) // for relative paths
		}
		for name, to := range map[string]string{"loop": "/dev/../loop", "out": "../..", "near": ".envrc", "full": root} {
			if err == nil {
				err = os.Symlink(to, filepath.Join(root, name))
			}
		}
		for _, name := range []string{"sub", "file", "dev"} {
			if err == nil {
				err = os.Mkdir(filepath.Join(root, name), 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		b := newBrokerAt(t, root)
		b.AddProtected([]mountlist.Path{mountlist.Path(root + "/.envrc"), mountlist.Path(root + "/sub/.vscode")}, nil)
		n := &seccompNotif{ID: 1}
		n.Data.Number = numbers[int(call)%len(numbers)]
		file := calls[n.Data.Number]
		if file.name == "creat" && (strings.Contains(string(first), "proc") || strings.Contains(string(first), "dev")) {
			return // the call would truncate a file that this process has open
		}
		if file.op == "change" {
			if len(file.paths) == 0 || strings.Contains(string(first), "proc") || strings.Contains(string(first), "dev") {
				return // the call would change a file that this process has open
			}
			mode |= 0o700 // otherwise the files could not be removed
		}
		texts := [][]byte{append(first, 0), append(second, 0)}
		for i := range n.Data.Args {
			n.Data.Args[i] = uint64(mode)
		}
		for i, p := range file.paths {
			n.Data.Args[p.path] = uint64(uintptr(unsafe.Pointer(&texts[i][0])))
			if p.dir >= 0 {
				n.Data.Args[p.dir] = uint64(uint32(dir))
			}
		}
		switch {
		case file.flags >= 0:
			n.Data.Args[file.flags] = uint64(flags &^ unix.O_TRUNC)
		case strings.HasPrefix(file.name, "mknod"):
			n.Data.Args[file.paths[0].path+1] = uint64(mode&0o777 | unix.S_IFIFO) // no devices
		}
		switch other := uint64(uintptr(unsafe.Pointer(&texts[1][0]))); file.name {
		case "symlink", "symlinkat", "link":
			n.Data.Args[0] = other
		case "linkat":
			n.Data.Args[0], n.Data.Args[1], n.Data.Args[4] = uint64(uint32(dir)), other, uint64(flags)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the thread gets another umask, and ends with this call
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				t.Error(err)
				return
			}
			n.PID = uint32(unix.Gettid())
			var names [2]workerview.UserPath
			b.readOnlyDenial(n, file, &names)
			if fd, err := b.emulateNow(n, file); err == nil && fd >= 0 {
				unix.Close(fd)
			}
			_, _ = egressclient.ParseSockaddr(first)
		}()
		<-done
		runtime.KeepAlive(texts)
		for dir, forbidden := range map[string]string{root: ".envrc", filepath.Join(root, "sub"): ".vscode"} {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if strings.EqualFold(e.Name(), forbidden) {
					t.Errorf("%s made %s in %s", file.name, e.Name(), dir)
				}
			}
		}
		if entries, err := os.ReadDir(made); err != nil || len(entries) != 1 {
			t.Errorf("%s made a file outside: %v, %v", file.name, entries, err)
		}
	})
}

func (b *Broker) emulateNow(n *seccompNotif, f *fileCall) (int, error) {
	paths, err := b.pathsOf(n, f)
	if err != nil {
		return -1, err
	}
	return b.emulateCall(n, f, paths)
}
