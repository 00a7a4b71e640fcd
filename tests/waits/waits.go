// Package waits is for tests that mostly wait for processes, and use little of a processor.
package waits

import (
	"flag"
	"runtime"
	"strconv"
)

// each is how many parallel tests there are for each processor.
const each = 2

// SideBySide lets more tests run at the same time than there are processors, unless the
// flag -parallel says how many. TestMain calls it.
func SideBySide() {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		_ = flag.Set(f.Name, strconv.Itoa(each*runtime.GOMAXPROCS(0)))
	}
}
