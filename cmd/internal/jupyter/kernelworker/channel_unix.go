//go:build unix

package kernelworker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// pipeChannel is the worker's end of its channel: the two pipes of REPL_IPC.
type pipeChannel struct{ in, out *os.File }

// openChannel takes the channel and the nonce of the markers out of the environment, so that no child
// inherits them.
func openChannel() (*pipeChannel, string, error) {
	words := strings.Split(os.Getenv("REPL_IPC"), ",")
	os.Unsetenv("REPL_IPC")
	if len(words) != 3 {
		return nil, "", errors.New("REPL_IPC is not set: only repl starts this command, as the worker of a session")
	}
	in, err := openDescriptor(words[0])
	if err != nil {
		return nil, "", err
	}
	out, err := openDescriptor(words[1])
	if err != nil {
		return nil, "", err
	}
	return &pipeChannel{in, out}, words[2], nil
}

func openDescriptor(word string) (*os.File, error) {
	fd, err := strconv.Atoi(word)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("REPL_IPC: %q is not a file descriptor", word)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil { // so that Close ends a Read
		return nil, err
	}
	return os.NewFile(uintptr(fd), "channel"), nil
}

func (c *pipeChannel) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *pipeChannel) Write(b []byte) (int, error) { return c.out.Write(b) }
func (c *pipeChannel) Close() error                { return errors.Join(c.in.Close(), c.out.Close()) }

var _ io.ReadWriteCloser = (*pipeChannel)(nil)
