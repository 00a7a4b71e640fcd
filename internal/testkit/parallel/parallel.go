// Package waits is for tests that mostly wait for processes, and use little of a processor.
package parallel

import (
	"flag"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
)

// testsPerCPU is how many parallel tests there are for each processor.
const testsPerCPU = 2

// AllowParallel lets more tests run at the same time than there are processors, unless the
// flag -parallel says how many. Signals end what the tests start also where go test ignores
// them, because nohup started it or it is in the background. TestMain calls it.
func AllowParallel() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // exec ignores what was ignored, not what was caught
		}
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		_ = flag.Set(f.Name, strconv.Itoa(testsPerCPU*runtime.GOMAXPROCS(0)))
	}
}
