//go:build !linux

package host

type company struct{}

func (*company) alone(int) bool { return true } // nobody looks for readers here
func (*company) close()         {}
