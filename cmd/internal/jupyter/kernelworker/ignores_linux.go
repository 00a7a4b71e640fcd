package kernelworker

import (
	"os"
	"strconv"
	"strings"
)

// ignoresInterrupts reports whether a process ignores SIGINT, as ipykernel does while it runs no code.
func ignoresInterrupts(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(text), "\nSigIgn:")
	mask, err := strconv.ParseUint(strings.TrimSpace(after[:strings.IndexByte(after+"\n", '\n')]), 16, 64)
	return err == nil && mask>>(stopSignal-1)&1 == 1
}
