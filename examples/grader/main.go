// Command grader runs programs that nobody has read, and prints what became of each. Every program
// gets a session of its own: in a sandbox without network, with limits of memory, processes, disk and
// time. A program that breaks a limit costs the others nothing.
//
//	go run ./examples/grader submissions/*.py
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// timeLimit is for one program, and does not include the start of its interpreter.
const timeLimit = 5 * time.Second

func main() {
	supervisor.MonitorMain()
	sup, err := supervisor.New(&supervisor.Options{Memory: 2 << 30, Processes: 256}) // of all programs together
	if err != nil {
		log.Fatal(err)
	}
	defer sup.Close()
	for _, g := range gradeAll(context.Background(), sup, os.Args[1:]) {
		fmt.Printf("%-20s %6.2f s  %s\n", filepath.Base(g.file), g.elapsed.Seconds(), g.verdict)
	}
}

type grade struct {
	file, verdict, output string
	elapsed               time.Duration
}

// gradeAll grades as many programs at a time as there are processors.
func gradeAll(ctx context.Context, sup *supervisor.Supervisor, files []string) []grade {
	grades := make([]grade, len(files))
	free := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i, file := range files {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			grades[i] = gradeFile(ctx, sup, fmt.Sprintf("program-%d", i+1), file)
		})
	}
	all.Wait()
	return grades
}

func gradeFile(ctx context.Context, sup *supervisor.Supervisor, name, file string) grade {
	g := grade{file: file}
	code, err := os.ReadFile(file)
	if err != nil {
		g.verdict = err.Error()
		return g
	}
	dir, err := os.MkdirTemp("", "grader-")
	if err != nil {
		g.verdict = err.Error()
		return g
	}
	defer os.RemoveAll(dir)
	spec := python.Spec(python.Options{Dir: dir})
	spec.Sandbox = &sandbox.Policy{Level: sandbox.Workspace, Home: sandbox.HomeTools, Network: sandbox.NetworkNone, NoNotice: true}
	spec.Limits = workers.Limits{Memory: 256 << 20, Processes: 32, Disk: 16 << 20}
	s, err := sup.Open(ctx, name, spec)
	if err != nil {
		g.verdict = err.Error()
		return g
	}
	defer s.Close(ctx)
	result, err := session.Run(ctx, s, string(code), &session.RunOptions{Timeout: timeLimit, Grace: time.Second, MaxText: 64 << 10})
	if err != nil {
		g.verdict = err.Error()
	}
	if result == nil {
		return g
	}
	g.output, g.elapsed = result.Text, result.Elapsed
	switch {
	case err != nil:
	case result.TimedOut:
		g.verdict = "too slow"
	case result.Error != nil:
		g.verdict = "failed: " + result.Error.Error()
	default:
		g.verdict = "passed"
	}
	return g
}
