package bench

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// cpuTime returns the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReaderScans reports what fifty active turns cost the supervisor, in percent of a processor,
// by what their code does at the terminal. Each session has run for ten seconds before.
func BenchmarkReaderScans(b *testing.B) {
	const sessions, before, window = 50, 10 * time.Second, 10 * time.Second
	for name, code := range map[string]string{
		"silent":  "import time; time.sleep(10000)",
		"blocked": "import subprocess; subprocess.run(['cat'])",
		"polling": "import subprocess; subprocess.run(['bash', '-c', 'read -t 10000'])",
	} {
		b.Run(name, func(b *testing.B) {
			path := pythonPath(b)
			sup, err := supervisor.New(&supervisor.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer sup.Close()
			for i := range sessions {
				s, err := sup.Open(b.Context(), fmt.Sprintf("s%d", i), python.Spec(python.Options{Path: path}))
				if err == nil {
					_, err = s.Wait(b.Context(), 0, nil)
				}
				if err == nil {
					_, err = s.Submit(b.Context(), code)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			<-time.After(before)
			for b.Loop() {
				used := cpuTime(b)
				<-time.After(window)
				b.ReportMetric(100*float64(cpuTime(b)-used)/float64(window), "%core")
			}
		})
	}
}

// BenchmarkTypeEcho reports how long it takes until a typed key is in the timeline again, as the output
// of a program that shows each key.
func BenchmarkTypeEcho(b *testing.B) {
	s := openReady(b)
	const echo = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os, tty; tty.setraw(0); os.write(1, b\"up\")\\nwhile True: os.write(1, os.read(0, 1))'])"
	if _, err := s.Submit(b.Context(), echo); err != nil {
		b.Fatal(err)
	}
	r, err := s.Wait(b.Context(), 0, nil)
	if err != nil || r.InputRequest == nil {
		b.Fatalf("got %+v, %v, want an input request", r.InputRequest, err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	echoed := make(chan struct{})
	go func() {
		for e := range s.Events(ctx, r.Next) {
			if t, ok := e.Body.(timeline.Text); ok && strings.Contains(string(t.Data), "k") {
				echoed <- struct{}{}
			}
		}
	}()
	for b.Loop() {
		if _, err := s.Type(ctx, session.Keys{Text: "k"}); err != nil {
			b.Fatal(err)
		}
		<-echoed
	}
}

// BenchmarkScreen reports how long it takes to get a screen of 50 rows and 200 columns.
func BenchmarkScreen(b *testing.B) {
	s := openReady(b)
	if err := s.Resize(b.Context(), session.Size{Rows: 50, Cols: 200}); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Submit(b.Context(), `print("\x1b[7mtitle\x1b[0m\n" + ("\x1b[31mred\x1b[0m plain " * 20 + "\n") * 60); import time; time.sleep(10000)`); err != nil {
		b.Fatal(err)
	}
	for {
		screen, err := s.Screen(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(screen.Lines) > 40 {
			break
		}
	}
	for b.Loop() {
		if _, err := s.Screen(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
