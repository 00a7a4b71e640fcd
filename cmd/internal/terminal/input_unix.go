//go:build unix

package terminal

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// suspends says whether Ctrl-Z gives the terminal back to the shell.
const suspends = true

// stopTime bounds the wait for the system to stop this program. It does not stop a program
// that no shell could continue.
const stopTime = time.Second

// suspend stops this program and returns when it is continued.
func suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(syscall.Getpid(), syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-continued:
	case <-time.After(stopTime):
	}
}

// keys returns a reader of the keys typed at the terminal.
func keys() io.Reader { return os.Stdin }
