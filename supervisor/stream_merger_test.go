package supervisor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A mergeRecorder is a fake terminal that records what a stream merger delivers, one word each.
type mergeRecorder struct {
	b        strings.Builder
	terminal []byte // written but not yet read
}

func (r *mergeRecorder) read(b []byte) (int, error) {
	n := copy(b, r.terminal)
	r.terminal = r.terminal[n:]
	return n, nil
}

// write makes the worker write to the terminal, and the terminal's reader read it.
func (r *mergeRecorder) write(f *streamMerger, s string, stop chan struct{}) {
	r.terminal = append(r.terminal, s...)
	for any := true; any; {
		any, _ = f.readText(stop)
	}
}

func (r *mergeRecorder) newMerger() *streamMerger {
	var last timeline.TextKind
	return newStreamMerger("n0", r.read, func(text timeline.Text) {
		if text.Begins {
			r.b.WriteString("<begins>")
		}
		if text.Kind != last { // consecutive parts of one kind get one tag
			last = text.Kind
			fmt.Fprintf(&r.b, "<%s>", last)
		}
		if text.Stream == timeline.Stderr {
			for _, c := range text.Data { // byte by byte, since a chunk may end inside a character
				if 'a' <= c && c <= 'z' {
					c -= 'a' - 'A'
				}
				r.b.WriteByte(c)
			}
			return
		}
		r.b.Write(text.Data)
	}, func(m ipc.Message) {
		fmt.Fprintf(&r.b, "<%s %d>", m.Type(), ipc.MarkOf(m))
	})
}

const markerFormat = "\x1b_n0;#%d\x1b\\"

func markerFor(n int) string { return fmt.Sprintf(markerFormat, n) }

func TestStreamMerger(t *testing.T) {
	t.Run("either reader places a frame at its marker", func(t *testing.T) {
		const before, between, behind = "a", "b", "late"
		for name, play := range map[string]func(*mergeRecorder, *streamMerger){
			"the terminal's reader": func(p *mergeRecorder, f *streamMerger) {
				p.write(f, before+markerFor(1)+between+markerFor(2)+behind, nil)
				f.mergeFrame(ipc.Output{Mark: 1})
				f.mergeFrame(ipc.Idle{Mark: 2})
			},
			"the frames' reader": func(p *mergeRecorder, f *streamMerger) {
				p.terminal = []byte(before + markerFor(1) + between + markerFor(2) + behind)
				f.mergeFrame(ipc.Output{Mark: 1})
				f.mergeFrame(ipc.Idle{Mark: 2})
			},
			"both, byte by byte": func(p *mergeRecorder, f *streamMerger) {
				for _, c := range before + markerFor(1) {
					p.write(f, string(c), nil)
				}
				f.mergeFrame(ipc.Output{Mark: 1})
				for _, c := range between + markerFor(2) + behind {
					p.write(f, string(c), nil)
				}
				f.mergeFrame(ipc.Idle{Mark: 2})
			},
		} {
			t.Run(name, func(t *testing.T) {
				var p mergeRecorder
				play(&p, p.newMerger())
				if got, want := p.b.String(), "a<output 1>b<idle 2>late"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	})

	t.Run("without markers, earlier output precedes idle", func(t *testing.T) {
		var p mergeRecorder
		f := p.newMerger()
		p.terminal = []byte("before")
		f.mergeFrame(ipc.Idle{})
		if got, want := p.b.String(), "before<idle 0>"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("any interleaving of reads gives the same order", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			var want strings.Builder
			var p mergeRecorder
			f := p.newMerger()
			var frames []ipc.Message // written but not yet read
			read := func() {         // each reader may lag behind the writer by any amount
				for random.IntN(2) == 0 {
					if random.IntN(2) == 0 {
						kernel := p.terminal
						p.terminal = kernel[:random.IntN(len(kernel)+1)]
						rest := kernel[len(p.terminal):]
						_, _ = f.readText(nil)
						p.terminal = append(p.terminal, rest...)
					} else if len(frames) > 0 {
						f.mergeFrame(frames[0])
						frames = frames[1:]
					}
				}
			}
			for n := 1; n <= 8; n++ { // the worker's actions, in order
				p.terminal = append(p.terminal, fmt.Sprintf("t%d", n)...)
				fmt.Fprintf(&want, "t%d", n)
				read()
				if n%3 == 0 {
					p.terminal = append(p.terminal, "\x1b_n0;E\x1b\\err\x1b_n0;O\x1b\\"...)
					want.WriteString("ERR")
				}
				p.terminal = append(p.terminal, markerFor(n)...)
				read()
				frames = append(frames, ipc.Output{Mark: uint64(n)})
				fmt.Fprintf(&want, "<output %d>", n)
				read()
			}
			for len(frames) > 0 {
				f.mergeFrame(frames[0])
				frames = frames[1:]
			}
			p.write(f, "", nil)
			if got := p.b.String(); got != want.String() {
				t.Fatalf("got %q, want %q", got, want.String())
			}
		}
	})

	t.Run("text that resembles a marker stays text", func(t *testing.T) {
		var p mergeRecorder
		f := p.newMerger()
		in := "x\x1b_n0;what is this, it never ends\x1b\\y\x1b_other;#1\x1b\\z\x1b"
		p.write(f, in, nil)
		f.flush()
		if got := p.b.String(); got != in {
			t.Errorf("got %q, want %q", got, in)
		}
	})

	t.Run("a lost marker holds nothing up", func(t *testing.T) {
		var p mergeRecorder
		f := p.newMerger()
		p.terminal = []byte("a") // the marker was discarded
		f.mergeFrame(ipc.Idle{Mark: 1})
		p.terminal = []byte("b" + markerFor(3) + "c") // and so was that of the next frame
		f.mergeFrame(ipc.InterruptAck{})
		f.mergeFrame(ipc.StdinWait{Mark: 2})
		f.mergeFrame(ipc.Idle{Mark: 3})
		if got, want := p.b.String(), "a<idle 1>"+"<interrupt_ack 0>b<stdin_wait 2><idle 3>c"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a marker that follows its frame is skipped", func(t *testing.T) {
		var p mergeRecorder
		f := p.newMerger()
		f.mergeFrame(ipc.Idle{Mark: 1}) // a worker that writes the frame first
		p.write(f, markerFor(1)+"next", nil)
		if got, want := p.b.String(), "<idle 1>next"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a lost marker in a flood of output holds nothing up", func(t *testing.T) {
		var p mergeRecorder
		f := newStreamMerger("n0", func(b []byte) (int, error) { return copy(b, "for ever"), nil }, func(timeline.Text) {}, func(m ipc.Message) { p.b.WriteString(m.Type()) })
		f.mergeFrame(ipc.Idle{Mark: 1})
		if got, want := p.b.String(), "idle"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("flush delivers the rest", func(t *testing.T) {
		var p mergeRecorder
		f := p.newMerger()
		p.write(f, "a"+markerFor(7)+"b\x1b_n", nil)
		f.flush()
		if got, want := p.b.String(), "ab\x1b_n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("too much pending text blocks its reader", func(t *testing.T) {
		var p mergeRecorder
		f := p.newMerger()
		p.terminal = []byte(markerFor(1) + strings.Repeat("x", 2*maxPendingBytes))
		blocked := make(chan struct{})
		go func() {
			for any := true; any; {
				any, _ = f.readText(nil)
			}
			close(blocked)
		}()
		f.mergeFrame(ipc.Output{Mark: 1}) // the late frame unblocks the reader
		<-blocked
		if got := len(p.b.String()); got != 2*maxPendingBytes+len("<output 1>") {
			t.Errorf("got %d bytes", got)
		}
		p.write(f, markerFor(2)+strings.Repeat("x", 2*maxPendingBytes), closedChan) // returns, because stop is closed
	})
}

func FuzzStreamMerger(f *testing.F) {
	f.Add("a\x1b_n0;#1\x1b\\b", 3)
	f.Add("\x1b_n0;E\x1b\\\x1b_n0;#", 1)
	f.Add("\x1b_n0;R\x1b\\one result in two reads", 14)
	f.Add("a\x1b_n0;T\x1b\\Error\x1b_n0;O\x1b\\b", 11)
	f.Fuzz(func(t *testing.T, terminal string, cut int) {
		cut = max(0, min(cut, len(terminal)))
		views := [2]string{}
		for i, chunks := range [][]string{{terminal}, {terminal[:cut], terminal[cut:]}} {
			var p mergeRecorder
			merger := p.newMerger()
			for _, c := range chunks {
				p.write(merger, c, closedChan)
			}
			merger.flush()
			views[i] = p.b.String()
		}
		if views[0] != views[1] {
			t.Errorf("split at %d: got %q, want %q", cut, views[1], views[0])
		}
	})
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
