package packages

import (
	"io/fs"
	"os/exec"
)

// ownTree leaves the default: the command is killed, what it has started is not.
func ownTree(*exec.Cmd) {}

// untrusted says why a directory could hold what somebody else put there; "" means
// it is the user's own, as what is in the user's profile is.
func untrusted(info fs.FileInfo) string {
	if !info.IsDir() {
		return "is not a directory"
	}
	return ""
}

// venvPython is the interpreter of a virtual environment, within it.
const venvPython = `Scripts\python.exe`
