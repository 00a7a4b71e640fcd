package bench

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func specForR(b *testing.B) workers.Spec {
	b.Helper()
	spec := r.Spec(r.Options{Env: []string{"R_PROFILE_USER=" + os.DevNull}})
	if spec.Err != nil {
		b.Skipf("R is not installed: %v", spec.Err)
	}
	return spec
}

func openR(b *testing.B) *supervisor.Session {
	b.Helper()
	return openWithFunctions(b, specForR(b))
}

// BenchmarkRTurn compares a whole turn of 1+1 through the Go API with the plain echo. The target is
// 3.
func BenchmarkRTurn(b *testing.B) {
	s, e := openR(b), newEchoProcess(b)
	var turns, echoes []time.Duration
	for range 50 { // warm both
		e.roundTrip(b)
		runCode(b, s, "1+1")
	}
	for b.Loop() {
		for range 20 {
			start := time.Now()
			e.roundTrip(b)
			echoes = append(echoes, time.Since(start))
		}
		for range 20 {
			start := time.Now()
			runCode(b, s, "1+1")
			turns = append(turns, time.Since(start))
		}
	}
	b.ReportMetric(microseconds(medianDuration(turns)), "us/turn")
	b.ReportMetric(microseconds(durationPercentile(turns, 0.99)), "us/turn-p99")
	b.ReportMetric(microseconds(medianDuration(echoes)), "us/echo")
	b.ReportMetric(float64(medianDuration(turns))/float64(medianDuration(echoes)), "x-echo")
}

// BenchmarkRPrint prints a million numbers, 16 MB, against R that prints them into a pipe. The
// target is 1.5.
func BenchmarkRPrint(b *testing.B) {
	s := openR(b)
	runCode(b, s, "options(max.print = 1e7); x <- rnorm(1e6)")
	plain := func(code string) time.Duration {
		start := time.Now()
		cmd := exec.Command(specForR(b).Path, "--no-save", "--no-restore", "--no-echo", "--no-init-file", "-e", code)
		cmd.Stdin = strings.NewReader("")
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	piped := func() time.Duration {
		start := time.Now()
		cmd := exec.Command(specForR(b).Path, "--no-save", "--no-restore", "--no-echo", "--no-init-file", "-e", "options(max.print = 1e7); x <- rnorm(1e6); print(x)")
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		return time.Since(start)
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		start := time.Now()
		runCode(b, s, "print(x)")
		ours = append(ours, time.Since(start))
		theirs = append(theirs, piped()-plain("x <- rnorm(1e6)")) // without the start
	}
	b.ReportMetric(microseconds(medianDuration(ours))/1e3, "ms/ours")
	b.ReportMetric(microseconds(medianDuration(theirs))/1e3, "ms/R")
	b.ReportMetric(float64(medianDuration(ours))/float64(medianDuration(theirs)), "x-R-pipe")
}

// BenchmarkRReady measures the time from Open to idle, monitor included, against the user's R up to
// its first prompt on a terminal. The target is 1.15.
func BenchmarkRReady(b *testing.B) {
	spec := specForR(b)
	sup, err := supervisor.New(&supervisor.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer sup.Close()
	var ready, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		cmd := exec.Command(spec.Path, "--no-save", "--no-restore", "--quiet", "--no-init-file")
		cmd.Env = append(os.Environ(), "TERM=dumb")
		master, err := pty.Start(cmd)
		if err != nil {
			b.Fatal(err)
		}
		for seen, buf := "", make([]byte, 4096); !strings.Contains(seen, "> "); {
			n, err := master.Read(buf)
			if err != nil {
				b.Fatal(err, seen)
			}
			seen += string(buf[:n])
		}
		bare = append(bare, time.Since(start))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = master.Close()

		start = time.Now()
		s, err := sup.Open(b.Context(), "ready", spec)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Wait(b.Context(), 0, nil); err != nil {
			b.Fatal(err)
		}
		ready = append(ready, time.Since(start))
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(microseconds(medianDuration(ready))/1e3, "ms/ready")
	b.ReportMetric(microseconds(medianDuration(bare))/1e3, "ms/R-prompt")
	b.ReportMetric(float64(medianDuration(ready))/float64(medianDuration(bare)), "x-R")
}
