//go:build !windows && (!linux || !(amd64 || arm64))

package r

// prebuilt is the shim for this system; nil where it has to be compiled.
var prebuilt []byte
