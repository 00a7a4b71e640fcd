package packages

import (
	"io/fs"
	"os/exec"
)

// ownTree keeps the default: the command is killed, its children are not.
func ownTree(*exec.Cmd) {}

// untrusted says why another user could have put files into a directory; "" means that only
// the user can, as in the user's profile.
func untrusted(info fs.FileInfo) string {
	if !info.IsDir() {
		return "is not a directory"
	}
	return ""
}

// venvPython is the path of the interpreter inside a virtual environment.
const venvPython = `Scripts\python.exe`
