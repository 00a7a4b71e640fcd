package cli

import "os"

// whenUnread does nothing: on Windows, only a write fails when the reader is gone.
func whenUnread(*os.File, func()) {}
