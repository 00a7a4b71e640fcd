//go:build !linux

package python

import "io/fs"

// changed is "": only Linux has sessions that could exchange an interpreter and nothing else.
func changed(fs.FileInfo) string { return "" }
