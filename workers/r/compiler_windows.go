package r

import "io/fs"

// cacheDirProblem returns "": on Windows, others cannot write to a user's directories.
func cacheDirProblem(fs.FileInfo) string { return "" }
