package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// chaosTime is how long TestChaos_RandomKills kills processes: go test -run Chaos -args -chaos 10m
var chaosTime = flag.Duration("chaos", 3*time.Second, "how long processes are killed at random")

// chaosEnv makes this program a client that uses the daemon at that socket until it is killed.
const chaosEnv = "CHAOS_CLIENT"

func TestLoad_StalledSubscriber(t *testing.T) {
	size := floodBytes
	if raceDetector {
		size >>= 4 // the race detector is slow, and uses more memory
	}
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	watch := func() *bufio.Reader {
		t.Helper()
		conn, err := client.Socket(r.socket).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"method":"stream/subscribe","params":{"session":"main"}}`+"\n"); err != nil {
			t.Fatal(err)
		}
		b := bufio.NewReaderSize(conn, 64<<10)
		if _, err := b.ReadSlice('\n'); err != nil { // the subscription has started
			t.Fatal(err)
		}
		return b
	}
	stopped, other := watch(), watch()

	var most uint64
	base := heapBytes()
	over, measured := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		for {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	var wg sync.WaitGroup
	wg.Go(func() {
		if !readToTurnEnd(other, 2) {
			t.Error("the other watcher was lost")
		}
	})
	begun := time.Now()
	reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: fmt.Sprintf("bulk %d\nprint done", size), WaitMS: processTimeout.Milliseconds()})
	if err != nil || reply.Outcome != "ok" || reply.OutputBytes < int64(size) {
		t.Fatalf("the turn: %+v, %v", reply, err)
	}
	wg.Wait()
	close(over)
	<-measured
	t.Logf("%d MB in %s; %d MB of heap at most, %d before", size>>20, time.Since(begun).Round(time.Millisecond), most>>20, base>>20)
	if !raceDetector && most > base+96<<20 {
		t.Errorf("the heap grew from %d to %d MB", base>>20, most>>20)
	}
	r.runCode(c, "print still here", "still here\n")
	// It continues where it stopped, and events dropped in the meantime are a gap. On a slower machine
	// the write timeout has passed.
	if inTime := time.Since(begun) < 20*time.Second; !readToTurnEnd(stopped, 2) && inTime {
		t.Error("the watcher that stopped was lost")
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// readToTurnEnd reads events until a turn ends, and reports whether they came in order.
func readToTurnEnd(lines *bufio.Reader, turn uint64) bool {
	var last timeline.Seq
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return false
		}
		var m struct {
			Params struct {
				Event  timeline.Event
				Events []timeline.Event
			}
		}
		if json.Unmarshal(line, &m) != nil {
			return false
		}
		events := m.Params.Events
		if m.Params.Event.Seq > 0 {
			events = append(events, m.Params.Event)
		}
		for _, e := range events {
			first, end := e.Seq, e.Seq
			if gap, ok := e.Body.(timeline.Gap); ok {
				first, end = gap.From, gap.To
			}
			if first != last+1 {
				return false
			}
			last = end
			if _, ok := e.Body.(timeline.TurnEnded); ok && e.Turn == turn {
				return true
			}
		}
	}
}

// runChaosClient uses the daemon in all ways until it is killed.
func runChaosClient(socket string) (status int) {
	ctx := context.Background()
	for {
		c, err := client.Dial(ctx, client.Socket(socket))
		if err != nil {
			return 1
		}
		c.OnProgress(func(protocol.PreparationProgress) {})
		for range 20 {
			name := fmt.Sprintf("s%d", rand.IntN(4))
			bounded, cancel := context.WithTimeout(ctx, time.Duration(1+rand.IntN(200))*time.Millisecond)
			switch rand.IntN(7) {
			case 0:
				_, _ = c.CreateSession(bounded, protocol.CreateParams{Name: name})
			case 1, 2:
				code := []string{"print x", "sleep 50ms\nprint y", "wait name? ", "bulk 200000", "flood 200000"}[rand.IntN(5)]
				_, _ = c.StartTurn(bounded, protocol.StartParams{Session: name, Input: code, Author: "chaos", WaitMS: 100})
			case 3:
				if w, err := c.Subscribe(bounded, protocol.SubscribeParams{Session: name}); err == nil {
					for range 50 {
						if _, err := w.Next(bounded); err != nil {
							break
						}
					}
				}
			case 4:
				if s, err := c.GetSession(bounded, name); err == nil && s.InputRequest != nil {
					_, _ = c.SendInput(bounded, protocol.InputParams{Session: name, InputRequest: s.InputRequest.ID, Input: "a\n"})
				}
			case 5:
				if s, err := c.GetSession(bounded, name); err == nil {
					_, _ = c.InterruptTurn(bounded, protocol.InterruptParams{Session: name, Turn: s.Turn})
				}
			case 6:
				_ = c.TakeWriteLock(bounded, name, "chaos", false)
			}
			cancel()
		}
		_ = c.Close()
	}
}

func TestChaos_RandomKills(t *testing.T) {
	if r, w, err := os.Pipe(); err == nil { // the first pipe opens the files that Go's runtime polls with, and they stay open
		_, _ = r.Close(), w.Close()
	}
	goroutines, files := runtime.NumGoroutine(), openFiles()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	seen := make(chan []timeline.Event, 1)
	watched := r.dial()
	w, err := watched.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var events []timeline.Event
		for {
			e, err := w.Next(context.Background())
			if err != nil {
				if !errors.Is(err, session.ErrClosed) {
					t.Errorf("the watcher: %v", err)
				}
				seen <- events
				return
			}
			events = append(events, e)
		}
	}()
	self := testexec.OwnPath()
	workers := make(map[int]bool)
	var clients []*exec.Cmd
	acknowledged, kills := 0, 0
	for begun := time.Now(); time.Since(begun) < *chaosTime; {
		if len(clients) < 6 {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), chaosEnv+"="+r.socket)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, cmd)
		}
		// The turn of this session counts as acknowledged when the call returns.
		reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: fmt.Sprintf("print turn %d\nsleep 5ms", acknowledged+1), WaitMS: processTimeout.Milliseconds()})
		if err != nil {
			t.Fatalf("the steady client: %v", err)
		}
		if reply.Turn > 0 {
			acknowledged++
		}
		all, err := c.ListSessions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.PID > 0 {
				workers[s.PID] = true
			}
			if s.PID > 0 && rand.IntN(4) == 0 {
				if worker, err := os.FindProcess(s.PID); err == nil {
					_ = worker.Kill()
					_ = worker.Release() // otherwise it keeps a file descriptor
				}
				kills++
			}
		}
		if rand.IntN(3) == 0 {
			_ = clients[0].Process.Kill()
			_ = clients[0].Wait()
			clients = clients[1:]
			kills++
		}
	}
	for _, cmd := range clients {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if err := c.CloseSession(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	events := <-seen
	wantNoGaps(t, events, 1)
	began := 0
	for _, e := range events {
		if _, is := e.Body.(timeline.TurnStarted); is {
			began++
		}
	}
	if began != acknowledged+1 { // plus the turn from the start of the test
		t.Errorf("%d turns were acknowledged, and %d are recorded", acknowledged+1, began)
	}
	t.Logf("%d kills, %d turns, %d events, %d workers", kills, acknowledged, len(events), len(workers))

	_ = c.Close()
	_ = watched.Close()
	r.cancel()
	if err := <-r.served; err != nil {
		t.Error(err)
	}
	r.served <- nil
	wait.Until(t, "no worker is left", func() bool {
		for pid := range workers {
			if testexec.IsAlive(pid) {
				return false
			}
		}
		return true
	})
	if !waitGoroutines(goroutines) {
		var stacks bytes.Buffer
		buf := make([]byte, 1<<20)
		stacks.Write(buf[:runtime.Stack(buf, true)])
		t.Errorf("%d goroutines before, %d after:\n%s", goroutines, runtime.NumGoroutine(), stacks.String())
	}
	wait.Until(t, fmt.Sprintf("no more than %d files are open, as before", files), func() bool { return openFiles() <= files })
}

// waitGoroutines waits until there are no more goroutines than before.
func waitGoroutines(before int) bool {
	return wait.Within(processTimeout, func() bool { return runtime.NumGoroutine() <= before })
}

// runCalls makes five slow calls to one session.
func runCalls(b *testing.B, c *client.Client, name string) {
	for range 5 {
		if _, err := c.StartTurn(b.Context(), protocol.StartParams{Session: name, Input: "sleep 40ms", WaitMS: processTimeout.Milliseconds()}); err != nil {
			b.Error(err)
		}
	}
}

// This benchmark shows that the calls of one client do not delay the calls of another.
func BenchmarkTenClientsOverOne(b *testing.B) {
	r := startDaemon(b, nil)
	var clients []*client.Client
	for i := range 10 {
		c := r.dial()
		name := fmt.Sprintf("s%d", i)
		if _, err := c.CreateSession(b.Context(), protocol.CreateParams{Name: name}); err != nil {
			b.Fatal(err)
		}
		runCalls(b, c, name) // after these calls, the session is ready
		clients = append(clients, c)
	}
	var one, ten time.Duration
	for b.Loop() {
		begun := time.Now()
		runCalls(b, clients[0], "s0")
		one += time.Since(begun)
		begun = time.Now()
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() { runCalls(b, c, fmt.Sprintf("s%d", i)) })
		}
		wg.Wait()
		ten += time.Since(begun)
	}
	b.ReportMetric(float64(ten)/float64(one), "×one")
}

// This benchmark runs a turn in each of 64 sessions, which 256 subscribers read to its end.
func BenchmarkSixtyFourSessionsAndTheirWatchers(b *testing.B) {
	const sessions, watchersEach = 64, 4
	r := startDaemon(b, nil)
	c := r.dial()
	for i := range sessions {
		if _, err := c.CreateSession(b.Context(), protocol.CreateParams{Name: fmt.Sprintf("s%d", i)}); err != nil {
			b.Fatal(err)
		}
	}
	run := func() {
		var wg sync.WaitGroup
		for i := range sessions {
			wg.Go(func() {
				reply, err := c.StartTurn(b.Context(), protocol.StartParams{Session: fmt.Sprintf("s%d", i), Input: "print hello", WaitMS: processTimeout.Milliseconds()})
				if err != nil || !strings.Contains(render.Events(reply.Events, nil).Text(), "hello") {
					b.Errorf("got %+v, %v", reply, err)
				}
			})
		}
		wg.Wait()
	}
	run()
	alone := time.Duration(0)
	const rounds = 5
	for range rounds {
		begun := time.Now()
		run()
		alone += time.Since(begun)
	}
	before := heapBytes()
	ended := make(chan uint64, sessions*watchersEach)
	for i := range sessions * watchersEach {
		w, err := r.dial().Subscribe(b.Context(), protocol.SubscribeParams{Session: fmt.Sprintf("s%d", i%sessions)})
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for {
				e, err := w.Next(context.Background())
				if err != nil {
					return
				}
				if _, is := e.Body.(timeline.TurnEnded); is && e.Turn > rounds+1 {
					ended <- e.Turn
				}
			}
		}()
	}
	run()
	for range sessions * watchersEach {
		<-ended
	}
	each := (heapBytes() - before) / (sessions * watchersEach)
	count := 0
	begun := time.Now()
	for b.Loop() {
		run()
		for range sessions * watchersEach {
			<-ended
		}
		count++
	}
	b.ReportMetric(float64(time.Since(begun))/float64(count)/(float64(alone)/rounds), "×unwatched")
	b.ReportMetric(float64(each)/1024, "KB/watcher")
}
