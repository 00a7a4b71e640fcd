package supervisor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/timeline"
)

// placed is a terminal, and what a fence delivered, one word each.
type placed struct {
	b        strings.Builder
	terminal []byte // written and not read yet
}

func (p *placed) read(b []byte) (int, error) {
	n := copy(b, p.terminal)
	p.terminal = p.terminal[n:]
	return n, nil
}

// write has the worker write to the terminal, and the terminal's reader read it.
func (p *placed) write(f *fence, s string, stop chan struct{}) {
	p.terminal = append(p.terminal, s...)
	for any := true; any; {
		any, _ = f.text(stop)
	}
}

func (p *placed) fence() *fence {
	return newFence("n0", p.read, func(s timeline.Stream, b []byte) {
		if s == timeline.Stderr {
			p.b.WriteString(strings.ToUpper(string(b)))
			return
		}
		p.b.Write(b)
	}, func(m ipc.Message) {
		fmt.Fprintf(&p.b, "<%s %d>", m.Type(), markOf(m))
	})
}

const marker = "\x1b_n0;#%d\x1b\\"

func mark(n int) string { return fmt.Sprintf(marker, n) }

func TestFence_FrameIsPlacedAtItsMarkerWhicheverComesFirst(t *testing.T) {
	stop := make(chan struct{})
	for name, play := range map[string]func(*placed, *fence){
		"terminal first": func(p *placed, f *fence) {
			p.write(f, "a"+mark(1)+"b"+mark(2)+"late", stop)
			f.frame(ipc.Output{Mark: 1})
			f.frame(ipc.Idle{Mark: 2})
		},
		"frames first": func(p *placed, f *fence) {
			f.frame(ipc.Output{Mark: 1})
			f.frame(ipc.Idle{Mark: 2})
			p.write(f, "a"+mark(1)+"b"+mark(2)+"late", stop)
		},
		"byte by byte": func(p *placed, f *fence) {
			f.frame(ipc.Output{Mark: 1})
			for _, c := range "a" + mark(1) + "b" + mark(2) + "late" {
				p.write(f, string(c), stop)
			}
			f.frame(ipc.Idle{Mark: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p placed
			play(&p, p.fence())
			if got, want := p.b.String(), "a<output 1>b<idle 2>late"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestFence_FrameFindsItsMarkerWithoutTheTerminalsReader(t *testing.T) {
	var p placed
	f := p.fence()
	p.terminal = []byte("a" + mark(1) + "late")
	f.frame(ipc.Idle{Mark: 1})
	if got, want := p.b.String(), "a<idle 1>late"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFence_WithoutMarksWhatWasWrittenBeforeIdleComesBeforeIt(t *testing.T) {
	var p placed
	f := p.fence()
	p.terminal = []byte("before")
	f.frame(ipc.Idle{})
	if got, want := p.b.String(), "before<idle 0>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFence_AnyInterleavingGivesTheSameOrder(t *testing.T) {
	stop := make(chan struct{})
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var terminal, want strings.Builder
		var frames []ipc.Message
		for n := 1; n <= 8; n++ {
			fmt.Fprintf(&terminal, "t%d%s", n, mark(n))
			if n%3 == 0 {
				terminal.WriteString("\x1b_n0;E\x1b\\err\x1b_n0;O\x1b\\")
			}
			fmt.Fprintf(&want, "t%d<output %d>", n, n)
			if n%3 == 0 {
				want.WriteString("ERR")
			}
			frames = append(frames, ipc.Output{Mark: uint64(n)})
		}
		var p placed
		f := p.fence()
		for rest := terminal.String(); len(rest)+len(frames) > 0; {
			if len(frames) > 0 && (len(rest) == 0 || random.IntN(3) == 0) {
				f.frame(frames[0])
				frames = frames[1:]
				continue
			}
			n := min(len(rest), 1+random.IntN(20))
			p.write(f, rest[:n], stop)
			rest = rest[n:]
		}
		if got := p.b.String(); got != want.String() {
			t.Fatalf("got %q, want %q", got, want.String())
		}
	}
}

func TestFence_TextThatResemblesAMarkerIsText(t *testing.T) {
	var p placed
	f := p.fence()
	in := "x\x1b_n0;what is this, it never ends\x1b\\y\x1b_other;#1\x1b\\z\x1b"
	p.write(f, in, nil)
	f.flush()
	if got := p.b.String(); got != in {
		t.Errorf("got %q, want %q", got, in)
	}
}

func TestFence_FrameThatLostItsMarkerComesBeforeTheNext(t *testing.T) {
	var p placed
	f := p.fence()
	f.frame(ipc.Image{Mark: 1})
	f.frame(ipc.Idle{Mark: 2})
	p.write(f, "a"+mark(2), nil)
	if got, want := p.b.String(), "a<image 1><idle 2>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFence_FramesNeverOvertakeEachOther(t *testing.T) {
	var p placed
	f := p.fence()
	f.frame(ipc.StdinWait{Mark: 1})
	f.frame(ipc.InterruptAck{})
	f.frame(ipc.Idle{Mark: 2})
	p.write(f, "a"+mark(1)+"b"+mark(2), nil)
	if got, want := p.b.String(), "a<stdin_wait 1><interrupt_ack 0>b<idle 2>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFence_FlushDeliversWhatIsLeftInOrder(t *testing.T) {
	var p placed
	f := p.fence()
	f.frame(ipc.SessionEnd{Mark: 9})
	p.write(f, "a"+mark(7)+"b\x1b_n", nil)
	f.flush()
	if got, want := p.b.String(), "ab\x1b_n<session_end 9>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFence_TooMuchUnplacedTextBlocksItsReader(t *testing.T) {
	var p placed
	f := p.fence()
	p.terminal = []byte(mark(1) + strings.Repeat("x", 2*maxUnplaced))
	blocked := make(chan struct{})
	go func() {
		for any := true; any; {
			any, _ = f.text(nil)
		}
		close(blocked)
	}()
	f.frame(ipc.Output{Mark: 1}) // whenever it comes, it frees the reader
	<-blocked
	if got := len(p.b.String()); got != 2*maxUnplaced+len("<output 1>") {
		t.Errorf("got %d bytes", got)
	}
	p.write(f, mark(2)+strings.Repeat("x", 2*maxUnplaced), closedChan) // returns: nothing matters any more
}

func FuzzFence(f *testing.F) {
	f.Add("a\x1b_n0;#1\x1b\\b", 3)
	f.Add("\x1b_n0;E\x1b\\\x1b_n0;#", 1)
	f.Fuzz(func(t *testing.T, terminal string, cut int) {
		cut = max(0, min(cut, len(terminal)))
		views := [2]string{}
		for i, chunks := range [][]string{{terminal}, {terminal[:cut], terminal[cut:]}} {
			var p placed
			fence := p.fence()
			fence.frame(ipc.Output{Mark: 1})
			for _, c := range chunks {
				p.write(fence, c, closedChan)
			}
			fence.flush()
			views[i] = p.b.String()
		}
		if views[0] != views[1] {
			t.Errorf("split at %d: got %q, want %q", cut, views[1], views[0])
		}
	})
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
