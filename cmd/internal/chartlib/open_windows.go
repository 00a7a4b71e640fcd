package chartlib

import "os"

// openFile opens a file. Windows has no pipes in directories.
func openFile(path string) (*os.File, error) { return os.Open(path) }
