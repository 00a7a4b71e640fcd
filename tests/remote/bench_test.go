//go:build linux

package remote

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// BenchmarkTurn alternates turns of `1` through the daemon's socket, through a local repl bridge, and
// through ssh.
func BenchmarkTurn(b *testing.B) {
	w := startEngine(b, "ssh").newRemote(b)
	bridged := *w.newDialer()
	bridged.Prefix = append([]string{"env", remoteMarkEnv + "=" + w.mark}, w.engine.environment()...)
	links := []*client.Client{newLink(b, client.DefaultDialer(w.engine.envValue)), newLink(b, &bridged), w.newLink(b)}
	name := w.openSession(b, links[0]).Name()
	took := make([][]time.Duration, len(links))
	for i := range links { // the first turn opens the connection
		timeTurn(b, links[i].Session(name))
	}
	for b.Loop() {
		for i, l := range links {
			took[i] = append(took[i], timeTurn(b, l.Session(name)))
		}
	}
	direct, bridge, ssh := median(took[0]), median(took[1]), median(took[2])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(direct), "ms-direct")
	b.ReportMetric(milliseconds(bridge-direct), "ms-more-by-dial")
	b.ReportMetric(milliseconds(ssh-direct), "ms-more-by-ssh")
	b.ReportMetric(float64(ssh)/float64(direct), "x-by-ssh")
}

// BenchmarkTurn_FarAway runs a turn over ssh with a delay of 100 ms in each direction, so a round
// trip takes 200 ms.
func BenchmarkTurn_FarAway(b *testing.B) {
	e := startEngine(b, "ssh")
	port, err := e.listenSSH(testAccount{"late", testAccounts[0].shell})
	wantNoError(b, err)
	w := e.newRemote(b)
	delayed := *w.newDialer()
	delayed.Prefix = append(w.prefix()[:len(w.prefix())-1:len(w.prefix())-1], "-p", strconv.Itoa(delayProxy(b, port, 100*time.Millisecond)), "plain")
	s := w.openSession(b, newLink(b, &delayed))
	timeTurn(b, s)
	var took []time.Duration
	for b.Loop() {
		took = append(took, timeTurn(b, s))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(median(took)), "ms")
}

// BenchmarkOutput reads 50 MB of output as events. A turn has 2 MB, which the daemon holds for a
// slow reader.
func BenchmarkOutput(b *testing.B) {
	const turns, size = 25, 2_000_000
	w := startEngine(b, "ssh").newRemote(b)
	links := []*client.Client{newLink(b, client.DefaultDialer(w.engine.envValue)), w.newLink(b)}
	name := w.openSession(b, links[0]).Name()
	var took [2][]time.Duration
	for b.Loop() {
		for i, l := range links {
			began := time.Now()
			for range turns {
				readPrinted(b, l.Session(name), size)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	direct, ssh := median(took[0]), median(took[1])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(turns*size/1e6/direct.Seconds(), "MB/s-direct")
	b.ReportMetric(float64(direct)/float64(ssh), "x-by-ssh")
}

// readPrinted reads a turn that prints the given number of bytes.
func readPrinted(b *testing.B, s *client.Session, size int) {
	b.Helper()
	now, err := s.Info(b.Context())
	wantNoError(b, err)
	turn, err := s.Submit(b.Context(), fmt.Sprintf("for _ in range(%d): print(('x' * 99 + '\\n') * 1000, end='')", size/100_000))
	wantNoError(b, err)
	read := &eventReader{t: b, s: s, turn: turn, after: now.LastSeq}
	read.readUntil(func() bool { return read.ended })
	if read.text.Len() != size {
		b.Fatalf("got %d bytes", read.text.Len())
	}
}

func newLink(b *testing.B, d client.Dialer) *client.Client {
	l := client.New(d, nil)
	b.Cleanup(func() { _ = l.Close() })
	return l
}

// timeTurn returns the duration of a turn.
func timeTurn(b *testing.B, s *client.Session) time.Duration {
	b.Helper()
	began := time.Now()
	reply, err := s.StartTurn("1", func(uint64) {}).Wait(b.Context(), &session.WaitOptions{Timeout: testTimeout})
	took := time.Since(began)
	if err != nil || reply.Outcome == "" {
		b.Fatalf("got %+v, %v", reply, err)
	}
	return took
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// delayProxy forwards a port to another, and delays every byte in both directions.
func delayProxy(b *testing.B, port int, by time.Duration) int {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	wantNoError(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				_ = in.Close()
				continue
			}
			go copyDelayed(out, in, by)
			go copyDelayed(in, out, by)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// copyDelayed copies one direction with a delay.
func copyDelayed(to, from net.Conn, by time.Duration) {
	type part struct {
		data []byte
		due  time.Time
	}
	parts := make(chan part, 1024)
	go func() {
		defer close(parts)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			parts <- part{data[:n], time.Now().Add(by)}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		<-time.After(time.Until(p.due))
		_, _ = to.Write(p.data)
	}
	_ = to.Close()
	_ = from.Close()
}
