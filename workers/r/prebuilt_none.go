//go:build !windows && (!linux || !(amd64 || arm64))

package r

// compressedShim is nil: on this system the shim must be compiled.
var compressedShim []byte
