package namedpipe

import (
	"errors"
	"strings"

	"golang.org/x/sys/windows"
)

// prefix begins the names of pipes of this machine. A pipe of another machine would get the
// user's credentials.
const prefix = `\\.\pipe\`

// maxNameLength is the system's limit, including the prefix.
const maxNameLength = 256

// DefaultName returns the name of the pipe of this user's daemon, the same in all sessions of the
// desktop.
func DefaultName() string {
	user, err := currentUser()
	if err != nil {
		return prefix + "turnstone" // Listen and Dial report the error
	}
	return prefix + "turnstone-" + user.String()
}

// checkName refuses names that no pipe can have.
func checkName(name string) error {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || rest == "" || len(name) > maxNameLength || strings.ContainsAny(rest, "\\\x00") {
		return errors.New(`on Windows a daemon is at a named pipe: name it ` + prefix + `NAME with --socket or TURNSTONE_SOCKET, in up to 256 bytes and with no other backslash`)
	}
	return nil
}

// currentUser returns the user of this process, elevated or not.
func currentUser() (*windows.SID, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	return user.User.Sid, nil
}
