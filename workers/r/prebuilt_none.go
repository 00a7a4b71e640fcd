//go:build !windows && (!linux || !(amd64 || arm64))

package r

// prebuilt is nil: on this system the shim must be compiled.
var prebuilt []byte
