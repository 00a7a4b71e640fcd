//go:build unix && !linux

package registry

func hostName() string { return "" }
