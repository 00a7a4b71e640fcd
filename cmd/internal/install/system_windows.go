package install

import "os"

// keepOwner has nothing to do here: a file belongs to who may write its directory.
func keepOwner(*os.File, os.FileInfo) error { return nil }

// lock is missing here: directories cannot be locked.
func lock(string) (unlock func(), err error) { return func() {}, nil }
