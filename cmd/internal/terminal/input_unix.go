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

// stopTime bounds how long the system may take to stop this program: it does not do
// so where no shell could ever continue it.
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

// keys returns what is typed at the terminal.
func keys() io.Reader { return os.Stdin }
