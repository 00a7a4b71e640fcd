//go:build !linux

package host

type company struct{}

func (*company) alone(int, tty) bool { return true } // nobody looks for readers here
func (*company) close()              {}
