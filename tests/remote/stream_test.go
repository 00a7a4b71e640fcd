//go:build linux

package remote

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestTransport(t *testing.T) {
	t.Run("carries every byte in both directions", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			sent := make([]byte, 3<<20)
			_, _ = rand.NewChaCha8([32]byte{1}).Read(sent)
			copy(sent, "\x00\r\n\x04\x03\x1a\xff~.\n\x11\x13") // bytes that a terminal would interpret
			got, errs, status := e.runPrefixed(t, sent, "cat")
			if status != 0 || !bytes.Equal(got, sent) {
				t.Errorf("status %d, %d bytes of %d the same, %s", status, commonPrefix(got, sent), len(sent), errs)
			}
		})
	})

	t.Run("returns the exit status of a missing program", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			out, errs, status := e.runPrefixed(t, nil, "/nowhere/repl")
			if status == 0 || len(out) > 0 || !bytes.Contains(errs, []byte("/nowhere/repl")) {
				t.Errorf("status %d, output %q, errors %q", status, out, errs)
			}
		})
	})
}

// commonPrefix returns the length of the common prefix of two texts.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
