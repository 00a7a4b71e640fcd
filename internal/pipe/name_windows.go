package pipe

import (
	"errors"
	"strings"

	"golang.org/x/sys/windows"
)

// prefix is what a pipe of this machine is called by. One of another machine would
// be handed the user's credentials.
const prefix = `\\.\pipe\`

// maxName is what the system takes, prefix included.
const maxName = 256

// Default returns the name of the pipe of this user's daemon, whatever session of the
// desktop they are in.
func Default() string {
	user, err := self()
	if err != nil {
		return prefix + "turnstone" // Listen and Dial say what is wrong
	}
	return prefix + "turnstone-" + user.String()
}

// check refuses what is no name of a pipe.
func check(name string) error {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || rest == "" || len(name) > maxName || strings.ContainsAny(rest, "\\\x00") {
		return errors.New(`on Windows a daemon is at a named pipe: name it ` + prefix + `NAME with --socket or REPL_SOCKET, in up to 256 bytes and with no other backslash`)
	}
	return nil
}

// self returns the user of this process, elevated or not.
func self() (*windows.SID, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	return user.User.Sid, nil
}
