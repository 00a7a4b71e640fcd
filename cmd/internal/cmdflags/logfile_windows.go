package cmdflags

import "os"

// lockLogFile does nothing: Windows does not move an open file.
func lockLogFile(*os.File) (unlock func()) { return func() {} }
