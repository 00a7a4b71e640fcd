package install

import "os"

// keepOwner has nothing to do here: a file belongs to who may write its directory.
func keepOwner(*os.File, os.FileInfo) error { return nil }
