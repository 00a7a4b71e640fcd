//go:build !linux

package supervisor

import "os"

// fileID tells a file from a later one of the same name; "" here, where a file that begins anew
// is seen by its size.
func fileID(*os.File) string { return "" }
