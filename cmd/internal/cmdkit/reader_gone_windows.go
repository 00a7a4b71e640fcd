package cmdkit

import "os"

// OnReaderGone does nothing: on Windows, only a write fails when the reader is gone.
func OnReaderGone(*os.File, func()) {}
