package mcptransport

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestStdioConnLimits(t *testing.T) {
	// The server refuses further requests of a client that writes but reads no answers. It still
	// processes the client's other messages.
	t.Run("rejects requests beyond the number of open ones", func(t *testing.T) {
		reader, writer := io.Pipe()
		t.Cleanup(func() { _ = reader.Close() })
		w := newStdioConn(strings.NewReader(""), writer, slog.New(slog.DiscardHandler))
		for i := range 3 * maxOpenRequests {
			w.acceptLine(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i))
		}
		if len(w.openRequests) != maxOpenRequests || len(w.requestNumbers) != maxOpenRequests || len(w.decodedMessages) != maxOpenRequests {
			t.Errorf("%d, %d and %d requests are stored, want %d", len(w.openRequests), len(w.requestNumbers), len(w.decodedMessages), maxOpenRequests)
		}
		w.acceptLine([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`))
		if last := w.openRequests[8]; last == nil || !last.IsCancelled() {
			t.Error("a cancel is ignored")
		}
		first := make([]byte, 200)
		n, err := reader.Read(first)
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"too many open requests (%d): read the answers first"}}`, maxOpenRequests, maxOpenRequests)
		if got := strings.TrimSpace(string(first[:n])); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})

	t.Run("rejects requests beyond the bytes of open ones", func(t *testing.T) {
		w := newStdioConn(strings.NewReader(""), io.Discard, slog.New(slog.DiscardHandler))
		w.openRequests[0], w.openBytes = &openRequest{}, maxOpenBytes
		w.acceptLine([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1}}`))
		if len(w.decodedMessages) != 0 || len(w.requestNumbers) != 0 {
			t.Error("a request beyond the bound was accepted")
		}
		w.queueWriters.Wait()
	})

	// An id may be as long as a line, and each refusal repeats it.
	t.Run("drops refusals of long ids beyond the limit", func(t *testing.T) {
		reader, writer := io.Pipe() // never read
		t.Cleanup(func() { _ = reader.Close() })
		w := newStdioConn(strings.NewReader(""), writer, slog.New(slog.DiscardHandler))
		const size = 1 << 20
		for i := range 2 * maxQueuedBytes / size {
			id := strings.Repeat("x", size) + fmt.Sprint(i)
			w.acceptLine(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":"initialize","params":1}`, id)) // refused for its params
			if i < 3 {
				w.acceptLine(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":"tools/list"}`, id))
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		kept := 0
		for _, line := range w.queuedLines {
			kept += len(line)
		}
		if len(w.openRequests) != 3 || w.openBytes < 3*size || kept < size || kept > maxQueuedBytes {
			t.Errorf("%d requests count as %d bytes, and %d bytes of refusals are queued", len(w.openRequests), w.openBytes, kept)
		}
	})
}
