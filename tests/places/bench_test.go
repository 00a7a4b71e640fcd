//go:build linux

package places

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

// A turn of `1` through the daemon's socket, through repl dial beside it, and through ssh, by turns.
func BenchmarkTurn(b *testing.B) {
	w := on(b, "ssh").way(b)
	beside := *w.dialer()
	beside.Prefix = append([]string{"env", markEnv + "=" + w.mark}, w.e.env()...)
	links := []*client.Link{linkTo(b, client.DefaultDialer(w.e.variable)), linkTo(b, &beside), w.link(b)}
	name := w.open(b, links[0]).Name()
	took := make([][]time.Duration, len(links))
	for i := range links { // the first turn makes the connection
		takes(b, links[i].Session(name))
	}
	for b.Loop() {
		for i, l := range links {
			took[i] = append(took[i], takes(b, l.Session(name)))
		}
	}
	direct, bridge, ssh := median(took[0]), median(took[1]), median(took[2])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(direct), "ms-direct")
	b.ReportMetric(milliseconds(bridge-direct), "ms-more-by-dial")
	b.ReportMetric(milliseconds(ssh-direct), "ms-more-by-ssh")
	b.ReportMetric(float64(ssh)/float64(direct), "x-by-ssh")
}

// A turn over ssh where every byte is late by 100 ms each way: a trip there and back is 200 ms.
func BenchmarkTurn_FarAway(b *testing.B) {
	e := on(b, "ssh")
	port, err := e.listen(account{"late", accounts[0].shell})
	want(b, err)
	w := e.way(b)
	way := *w.dialer()
	way.Prefix = append(w.words()[:len(w.words())-1:len(w.words())-1], "-p", strconv.Itoa(late(b, port, 100*time.Millisecond)), "plain")
	s := w.open(b, linkTo(b, &way))
	takes(b, s)
	var took []time.Duration
	for b.Loop() {
		took = append(took, takes(b, s))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(median(took)), "ms")
}

// 50 MB of output, read as events. A turn has 2 MB, which the daemon keeps for a slow reader.
func BenchmarkOutput(b *testing.B) {
	const turns, size = 25, 2_000_000
	w := on(b, "ssh").way(b)
	links := []*client.Link{linkTo(b, client.DefaultDialer(w.e.variable)), w.link(b)}
	name := w.open(b, links[0]).Name()
	var took [2][]time.Duration
	for b.Loop() {
		for i, l := range links {
			began := time.Now()
			for range turns {
				prints(b, l.Session(name), size)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	direct, ssh := median(took[0]), median(took[1])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(turns*size/1e6/direct.Seconds(), "MB/s-direct")
	b.ReportMetric(float64(direct)/float64(ssh), "x-by-ssh")
}

// prints reads a turn that prints so many bytes.
func prints(b *testing.B, s *client.Session, size int) {
	b.Helper()
	now, err := s.Info(b.Context())
	want(b, err)
	turn, err := s.Submit(b.Context(), fmt.Sprintf("for _ in range(%d): print(('x' * 99 + '\\n') * 1000, end='')", size/100_000))
	want(b, err)
	read := &reader{t: b, s: s, turn: turn, after: now.LastSeq}
	read.until(func() bool { return read.ended })
	if read.text.Len() != size {
		b.Fatalf("%d bytes came", read.text.Len())
	}
}

func linkTo(b *testing.B, d client.Dialer) *client.Link {
	l := client.NewLink(d, nil)
	b.Cleanup(l.Close)
	return l
}

// takes is how long a turn takes.
func takes(b *testing.B, s *client.Session) time.Duration {
	b.Helper()
	began := time.Now()
	reply, err := s.StartTurn("1", func(uint64) {}).Wait(b.Context(), &session.WaitOptions{Timeout: deadline})
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

// late is a port that leads to another, and holds every byte back for a while, each way.
func late(b *testing.B, port int, by time.Duration) int {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	want(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				_ = near.Close()
				continue
			}
			go carry(far, near, by)
			go carry(near, far, by)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// carry copies one way, late.
func carry(to, from net.Conn, by time.Duration) {
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
