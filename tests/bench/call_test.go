package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// openWithCalls opens a session whose code can call two functions of this program. One returns at
// once, and one returns n bytes.
func openWithCalls(b *testing.B, spec workers.Spec) *supervisor.Session {
	b.Helper()
	type number struct {
		N int `json:"n"`
	}
	return openWithFunctions(b, spec,
		supervisor.FunctionOf("same", "", func(_ context.Context, n number) (int, error) { return n.N, nil }),
		supervisor.FunctionOf("data", "", func(_ context.Context, n number) ([]byte, error) { return make([]byte, n.N), nil }),
		supervisor.FunctionOf("numbers", "", func(_ context.Context, n number) ([]int, error) {
			list := make([]int, n.N)
			for i := range list {
				list[i] = 1000 * i
			}
			return list, nil
		}),
	)
}

// timeCode runs code that prints its own measurement in seconds.
func timeCode(b *testing.B, s *supervisor.Session, code string) time.Duration {
	b.Helper()
	r := runCode(b, s, code)
	var text strings.Builder
	for _, e := range r.Events {
		if t, ok := e.Body.(timeline.Text); ok {
			text.Write(t.Data)
		}
	}
	d, err := time.ParseDuration(strings.TrimSpace(text.String()) + "s")
	if r.Outcome != "ok" || err != nil {
		b.Fatalf("%s: %v: %s", r.Outcome, err, r.Text())
	}
	return d
}

// compareCalls alternates loops of calls with as many frame echoes. The target is 8 for Python, and 2
// for R.
func compareCalls(b *testing.B, s *supervisor.Session, loop string) {
	const calls = 500 // in a loop
	e := newEchoProcess(b)
	var ours, echoes []time.Duration
	for warm := true; warm || b.Loop(); warm = false {
		start := time.Now()
		for range calls {
			e.roundTrip(b)
		}
		echo := time.Since(start) / calls
		call := timeCode(b, s, loop) / calls
		if !warm {
			ours, echoes = append(ours, call), append(echoes, echo)
		}
	}
	b.ReportMetric(microseconds(medianDuration(ours)), "us/call")
	b.ReportMetric(microseconds(medianDuration(echoes)), "us/echo")
	b.ReportMetric(float64(medianDuration(ours))/float64(medianDuration(echoes)), "x-echo")
}

// BenchmarkCall calls a function that returns at once from Python.
func BenchmarkCall(b *testing.B) {
	s := openWithCalls(b, python.Spec(python.Options{Path: pythonPath(b)}))
	runCode(b, s, `
import time, threading, os, subprocess, sys
from turnstone import same, data
def loop(n=500):
    for i in range(n): same(i)
def timed(f, *args):
    start = time.perf_counter(); f(*args); print(time.perf_counter() - start)
def at_once(n=64):
    threads = [threading.Thread(target=loop, args=(100,)) for _ in range(n)]
    for t in threads: t.start()
    for t in threads: t.join()
`)
	b.Run("loop", func(b *testing.B) { compareCalls(b, s, "timed(loop)") })
	b.Run("64 threads", func(b *testing.B) {
		var all []time.Duration
		for b.Loop() {
			all = append(all, timeCode(b, s, "timed(at_once)")/6400)
		}
		b.ReportMetric(microseconds(medianDuration(all)), "us/call")
	})
}

// BenchmarkRCall calls a function that returns at once from R.
func BenchmarkRCall(b *testing.B) {
	s := openWithCalls(b, specForR(b))
	runCode(b, s, `timed <- function(code) cat(system.time(code)[["elapsed"]])
clock <- function() as.numeric(Sys.time())`)
	compareCalls(b, s, "local({ start <- clock(); for (i in 1:500) turnstone$same(i); cat(clock() - start) })")
}

// BenchmarkCallResult compares a result of 10 MB with a pipe from another process. The target is
// 0.5 of its speed.
func BenchmarkCallResult(b *testing.B) {
	for name, spec := range map[string]workers.Spec{"Python": python.Spec(python.Options{Path: pythonPath(b)}), "R": specForR(b)} {
		b.Run(name, func(b *testing.B) {
			code, pipe := `timed(lambda: len(data(10_000_000)))`, `timed(piped)`
			s := openWithCalls(b, spec)
			if name == "R" {
				code = "cat({ start <- clock(); length(turnstone$data(1e7)); clock() - start })"
				pipe = "cat({ start <- clock(); length(readBin(source, 'raw', 1e7)); clock() - start })"
				runCode(b, s, `clock <- function() as.numeric(Sys.time())
source <- pipe("head -c 1000000000 /dev/zero", "rb")`)
			} else {
				runCode(b, s, `
import time, subprocess
from turnstone import data
source = subprocess.Popen(["head", "-c", "1000000000", "/dev/zero"], stdout=subprocess.PIPE)
def timed(f):
    start = time.perf_counter(); f(); print(time.perf_counter() - start)
def piped(): return len(source.stdout.read(10_000_000))
`)
			}
			var ours, pipes []time.Duration
			for warm := true; warm || b.Loop(); warm = false {
				call, piped := timeCode(b, s, code), timeCode(b, s, pipe)
				if !warm {
					ours, pipes = append(ours, call), append(pipes, piped)
				}
			}
			b.ReportMetric(microseconds(medianDuration(ours))/1e3, "ms/call")
			b.ReportMetric(microseconds(medianDuration(pipes))/1e3, "ms/pipe")
			b.ReportMetric(float64(medianDuration(pipes))/float64(medianDuration(ours)), "x-pipe-speed")
		})
	}
}

// BenchmarkCallValues returns a result of 100 000 integers.
func BenchmarkCallValues(b *testing.B) {
	for name, spec := range map[string]workers.Spec{"Python": python.Spec(python.Options{Path: pythonPath(b)}), "R": specForR(b)} {
		b.Run(name, func(b *testing.B) {
			code := "import time, turnstone\nbegun = time.perf_counter(); x = turnstone.numbers(100_000); print(time.perf_counter() - start)"
			if name == "R" {
				code = "cat({ start <- as.numeric(Sys.time()); x <- turnstone$numbers(1e5); as.numeric(Sys.time()) - start })"
			}
			s := openWithCalls(b, spec)
			var all []time.Duration
			for b.Loop() {
				all = append(all, timeCode(b, s, code))
			}
			b.ReportMetric(microseconds(medianDuration(all))/1e3, "ms/result")
		})
	}
}
