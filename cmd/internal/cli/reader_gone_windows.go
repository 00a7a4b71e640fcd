package cli

import "os"

// onReaderGone does nothing: on Windows, only a write fails when the reader is gone.
func onReaderGone(*os.File, func()) {}
