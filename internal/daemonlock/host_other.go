//go:build unix && !linux

package daemonlock

func hostName() string { return "" }
