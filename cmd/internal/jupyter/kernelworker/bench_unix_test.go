//go:build unix

package kernelworker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// BenchmarkExecute runs "1" in a real kernel: directly by Jupyter messages, and as a turn of a session.
// The two alternate, so that a busy machine slows both. It reports medians.
func BenchmarkExecute(b *testing.B) {
	cache, err := os.UserCacheDir()
	if err != nil {
		b.Skip(err)
	}
	for name, dir := range map[string]string{
		"python3": filepath.Join(cache, "turnstone", "kernels", "share", "jupyter", "kernels", "python3"),
		"ir":      "/usr/share/jupyter/kernels/ir",
	} {
		b.Run(name, func(b *testing.B) {
			spec, err := kernelspec.Read(dir)
			if err != nil {
				b.Skip("scripts/setup-dev installs it: ", err)
			}
			direct, session := newDirectExecute(b, spec), newSessionExecute(b, dir)
			var own, ours []time.Duration
			for b.Loop() {
				own = append(own, timeCall(direct))
				ours = append(ours, timeCall(session))
			}
			slices.Sort(own)
			slices.Sort(ours)
			b.ReportMetric(float64(own[len(own)/2])/1e6, "own-ms")
			b.ReportMetric(float64(ours[len(ours)/2])/1e6, "ours-ms")
		})
	}
}

func timeCall(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// newDirectExecute returns a function that executes code by the kernel's own messages.
func newDirectExecute(b *testing.B, spec kernelspec.KernelSpec) func() {
	k, err := launchKernel(&spec, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { killProcess(k.cmd); <-k.exited })
	if k.kernelSockets, err = k.connectSockets(b.Context()); err != nil {
		b.Fatal(err)
	}
	shell, iopub := make(chan wire.Message), make(chan wire.Message)
	go k.receiveMessages(k.shell, shell)
	go k.receiveMessages(k.iopub, iopub)
	return func() {
		id, err := k.sendMessage(k.shell, "execute_request", executeRequest{Code: "1", Store: true, Expressions: map[string]string{}, Stdin: true}, nil)
		if err != nil {
			b.Fatal(err)
		}
		for replied, idle := false, false; !replied || !idle; {
			select {
			case m := <-shell:
				replied = replied || m.Parent.ID == id
			case m := <-iopub:
				idle = idle || m.Parent.ID == id && isIdleStatus(m)
			}
		}
	}
}

func isIdleStatus(m wire.Message) bool {
	var c statusContent
	return m.Header.Type == "status" && json.Unmarshal(m.Content, &c) == nil && c.State == "idle"
}

// newSessionExecute returns a function that executes code as a turn of a session.
func newSessionExecute(b *testing.B, dir string) func() {
	program := testexec.OwnPath()
	sup, err := supervisor.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sup.Close() })
	s, err := sup.Open(b.Context(), "main", workers.Spec{
		Name: "jupyter", Path: program, Args: []string{"kernel-worker", dir, workers.FilesDir}, Files: map[string][]byte{"kernel": nil},
	})
	if err == nil {
		_, err = s.Wait(b.Context(), 0, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		turn, err := s.Submit(b.Context(), "1")
		if err == nil {
			_, err = s.Wait(b.Context(), turn, nil)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
