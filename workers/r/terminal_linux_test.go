package r_test

import "testing"

// A child may leave the terminal nonblocking, which would truncate output and make readers fail. dd
// does so on request.
func TestTerminal_BlocksAgain(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{noPackages: true})
	flags := `flags <- function() strtoi(sub("flags:\\s*", "", grep("^flags", readLines("/proc/self/fdinfo/1"), value = TRUE)), 8L); nonblock <- function() bitwAnd(flags(), strtoi("4000", 8L)) > 0`
	w.RunCode(flags)
	w.RunCode(`invisible(system("dd iflag=nonblock count=0 status=none of=/dev/null")); nonblock()`).WantOutput(t, "[1] TRUE\n")
	w.RunCode(`nonblock()`).WantOutput(t, "[1] FALSE\n")
}
