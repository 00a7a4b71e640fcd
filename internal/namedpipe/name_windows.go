package namedpipe

import (
	"errors"
	"strings"

	"golang.org/x/sys/windows"
)

// prefix starts the names of pipes on this machine. A pipe on another machine would get the
// credentials of the user.
const prefix = `\\.\pipe\`

// maxNameLength is the limit of the system for a name, including the prefix.
const maxNameLength = 256

// DefaultName returns the name of the pipe of the daemon of this user, the same in all desktop
// sessions.
func DefaultName() string {
	user, err := currentUser()
	if err != nil {
		return prefix + "turnstone" // Listen and Dial report the error
	}
	return prefix + "turnstone-" + user.String()
}

// checkName returns an error if no pipe can have the name.
func checkName(name string) error {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || rest == "" || len(name) > maxNameLength || strings.ContainsAny(rest, "\\\x00") {
		return errors.New(`on Windows the daemon uses a named pipe: name it ` + prefix + `NAME with --socket or TURNSTONE_SOCKET, in up to 256 bytes and without another backslash`)
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
