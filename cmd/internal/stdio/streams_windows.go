package stdio

import (
	"os"

	"golang.org/x/sys/windows"
)

// takeStreams keeps the streams from child processes, and replaces those of this process.
func takeStreams(in, out *os.File) (*os.File, *os.File, error) {
	for _, f := range []*os.File{in, out} {
		_ = windows.SetHandleInformation(windows.Handle(f.Fd()), windows.HANDLE_FLAG_INHERIT, 0)
	}
	empty, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	os.Stdin, os.Stdout = empty, os.Stderr
	_ = windows.SetStdHandle(windows.STD_INPUT_HANDLE, windows.Handle(empty.Fd()))
	_ = windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(os.Stderr.Fd()))
	return in, out, nil
}
