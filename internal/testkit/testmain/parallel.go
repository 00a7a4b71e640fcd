package testmain

import (
	"flag"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
)

// testsPerCPU is the number of parallel tests for each processor.
const testsPerCPU = 2

// allowParallel allows more parallel tests than processors, unless the flag -parallel is set. It
// also makes signals end the processes that tests start. go test ignores signals if it was started
// by nohup or in the background, and children would inherit that.
func allowParallel() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // exec passes on ignored signals, but not caught ones
		}
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		_ = flag.Set(f.Name, strconv.Itoa(testsPerCPU*runtime.GOMAXPROCS(0)))
	}
}

// Rounds returns the number of rounds for a test that depends on chance or on a race: n, or n times
// TURNSTONE_TEST_ROUNDS.
func Rounds(n int) int {
	if times, err := strconv.Atoi(os.Getenv("TURNSTONE_TEST_ROUNDS")); err == nil {
		return n * times
	}
	return n
}
