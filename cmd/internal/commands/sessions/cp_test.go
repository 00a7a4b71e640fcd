package sessions

import (
	"bytes"
	"context"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/session"
)

// A slowSession has a file of five parts. The middle ones arrive after the last one.
type slowSession struct {
	session.Session
	content  []byte
	lastRead chan struct{}
}

func (s slowSession) File(_ context.Context, _ string, offset int64, _ int) (session.FilePart, error) {
	end := min(offset+100, int64(len(s.content)))
	switch {
	case end == int64(len(s.content)):
		close(s.lastRead)
	case offset > 0:
		<-s.lastRead
	}
	return session.FilePart{BlobPart: session.BlobPart{Data: s.content[offset:end], Offset: offset, Bytes: int64(len(s.content))}, ID: "1", Executable: true}, nil
}

func TestFileCopy_CountsBytes(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 45)
	var got, screen bytes.Buffer
	c := &fileCopy{session: slowSession{content: content, lastRead: make(chan struct{})}, bar: cmdkit.NewProgressBar(&screen)}
	executable, err := c.getFile(t.Context(), "a", &got)
	if err != nil || !executable || !bytes.Equal(got.Bytes(), content) || c.Files != 1 || c.Bytes != 450 {
		t.Errorf("got %d bytes, %v, %d files of %d bytes, %v", got.Len(), executable, c.Files, c.Bytes, err)
	}
}
