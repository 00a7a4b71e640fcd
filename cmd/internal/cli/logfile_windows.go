package cli

import "os"

// lock does nothing: an open file is not moved here.
func lock(*os.File) (unlock func()) { return func() {} }
