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
