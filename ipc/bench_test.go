package ipc_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

func BenchmarkEncode(b *testing.B) {
	b.Run("idle", func(b *testing.B) {
		benchmarkEncode(b, ipc.Idle{Turn: 1000, Prompt: ">>> ", Outcome: ipc.OutcomeOK, Mark: 77})
	})
	b.Run("output-64KiB", func(b *testing.B) {
		benchmarkEncode(b, ipc.Output{Stream: ipc.Stdout, Data: make([]byte, ipc.MaxOutputBytes)})
	})
}

func benchmarkEncode(b *testing.B, m ipc.Message) {
	frame, err := ipc.AppendFrame(nil, m)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		frame, _ = ipc.AppendFrame(frame[:0], m)
	}
}

func BenchmarkDecode(b *testing.B) {
	b.Run("idle", func(b *testing.B) {
		benchmarkDecode(b, ipc.Idle{Turn: 1000, Prompt: ">>> ", Outcome: ipc.OutcomeOK, Mark: 77})
	})
	b.Run("output-64KiB", func(b *testing.B) {
		benchmarkDecode(b, ipc.Output{Stream: ipc.Stdout, Data: make([]byte, ipc.MaxOutputBytes)})
	})
}

func benchmarkDecode(b *testing.B, m ipc.Message) {
	frame, err := ipc.AppendFrame(nil, m)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ipc.Decode(frame[4:], ipc.FromWorker); err != nil {
			b.Fatal(err)
		}
	}
}

// The minimum cost of a turn: one frame in each direction, through pipes and Go's poller, by
// two goroutines of one process.
func BenchmarkEcho(b *testing.B) {
	ours, theirs := newDuplexPair(b)
	c, peer := ipc.NewConn(ours, ipc.FromWorker), ipc.NewConn(theirs, ipc.FromSupervisor)
	defer c.Close()
	defer peer.Close()
	go func() {
		for {
			m, err := peer.Receive()
			if err != nil {
				return
			}
			peer.Send(ipc.Idle{Turn: m.(ipc.TurnStart).Turn, Prompt: ">>> ", Outcome: ipc.OutcomeOK, Mark: 1})
		}
	}()
	b.ReportAllocs()
	var turn uint64
	for b.Loop() {
		turn++
		if err := c.Send(ipc.TurnStart{Turn: turn, Input: []byte("1+1")}); err != nil {
			b.Fatal(err)
		}
		if m, err := c.Receive(); err != nil || m.(ipc.Idle).Turn != turn {
			b.Fatal(m, err)
		}
	}
}

// The same without the protocol: the cost of the pipes and the poller.
func BenchmarkBarePipes(b *testing.B) {
	ours, theirs := newDuplexPair(b)
	go func() {
		buf := make([]byte, 64)
		for {
			n, err := theirs.Read(buf)
			if err != nil {
				return
			}
			theirs.Write(buf[:n])
		}
	}()
	buf := make([]byte, 64)
	for b.Loop() {
		ours.Write(buf[:40])
		if _, err := ours.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
