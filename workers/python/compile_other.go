//go:build !linux

package python

import "io/fs"

// changeStamp is "": only Linux has sessions that could exchange an interpreter and nothing else.
func changeStamp(fs.FileInfo) string { return "" }
