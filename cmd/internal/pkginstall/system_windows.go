package pkginstall

import (
	"io/fs"
	"os/exec"
)

// setProcessGroup does nothing: the command is killed, its children are not.
func setProcessGroup(*exec.Cmd) {}

// whyUntrusted returns why another user may have put files into a directory. "" means that only the
// user can do so, as in the user's profile.
func whyUntrusted(info fs.FileInfo) string {
	if !info.IsDir() {
		return "is not a directory"
	}
	return ""
}

// venvPython is the path of the interpreter inside a virtual environment.
const venvPython = `Scripts\python.exe`
