//go:build !linux

package python

import "io/fs"

// changeStamp returns "": only sessions on Linux could replace an interpreter and nothing else.
func changeStamp(fs.FileInfo) string { return "" }
