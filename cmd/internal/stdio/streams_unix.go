//go:build unix

package stdio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// takeStreams moves the streams to other descriptors, which child processes do not inherit.
func takeStreams(in, out *os.File) (*os.File, *os.File, error) {
	in, err := moveStream(in)
	if err != nil {
		return nil, nil, err
	}
	if out, err = moveStream(out); err != nil {
		_ = in.Close()
		return nil, nil, err
	}
	empty, err := os.Open(os.DevNull)
	if err == nil {
		err = replaceDescriptor(int(empty.Fd()), 0)
		_ = empty.Close()
	}
	if err == nil {
		err = replaceDescriptor(2, 1)
	}
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, nil, fmt.Errorf("cannot replace the standard streams: %w", err)
	}
	return in, out, nil
}

// moveStream returns a stream at another descriptor. A pipe or a socket becomes non-blocking
// first: only then the os.File waits in the poller, and a wait can be interrupted. A terminal stays
// as it is, because the shell shares it.
func moveStream(f *os.File) (*os.File, error) {
	var i unix.Stat_t
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Fstat(fd, &i)
	}
	if kind := i.Mode & unix.S_IFMT; err == nil && (kind == unix.S_IFIFO || kind == unix.S_IFSOCK) {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s for the protocol: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
