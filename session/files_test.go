package session_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// A doneTransfer is a session that has the whole file: each answer but the first was lost, and the
// client repeats the pieces.
type doneTransfer struct {
	session.FileTransfer
	bytes int64
}

func (s doneTransfer) PutFile(_ context.Context, p session.FilePiece) (session.PutProgress, error) {
	if p.Offset == 0 {
		return session.PutProgress{Bytes: int64(len(p.Data))}, nil
	}
	return session.PutProgress{Bytes: s.bytes, Done: true}, nil
}

func TestPut_PiecesAgain(t *testing.T) {
	t.Parallel()
	content := make([]byte, 3*session.MaxPartBytes+1)
	if err := session.Put(t.Context(), doneTransfer{bytes: int64(len(content))}, "a", bytes.NewReader(content), nil); err != nil {
		t.Error(err)
	}
}
