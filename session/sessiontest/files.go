package sessiontest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func testFiles(t *testing.T, s session.Session) {
	ctx, dir := withTimeout(t), "sessiontest"                                       // the working directory is only for this session
	content := bytes.Repeat([]byte("0123456789abcde\n"), session.MaxPartBytes/16+1) // more than one piece
	var progress []int64
	options := &session.PutOptions{Parents: true, OnProgress: func(n int64) { progress = append(progress, n) }}
	if err := session.Put(ctx, s, dir+"/a.bin", bytes.NewReader(content), options); err != nil {
		t.Fatal(err)
	}
	if len(progress) != 2 || progress[0] != session.MaxPartBytes || progress[1] != int64(len(content)) {
		t.Errorf("the progress was %v", progress)
	}
	var got bytes.Buffer
	if err := session.Get(ctx, s, dir+"/a.bin", &got); err != nil || !bytes.Equal(got.Bytes(), content) {
		t.Errorf("got %d bytes of %d, %v", got.Len(), len(content), err)
	}
	if err := session.Put(ctx, s, dir+"/a.bin", strings.NewReader("new"), nil); session.KindOf(err) != session.KindFileExists {
		t.Errorf("a second put: got %v", err)
	}
	broken := errors.New("broken")
	if err := session.Put(ctx, s, dir+"/b", io.MultiReader(bytes.NewReader(content), &failingReader{broken}), nil); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: got %v", err)
	}
	list, err := s.Files(ctx, dir)
	if err != nil || len(list.Files) != 1 || list.Files[0].Path != dir+"/a.bin" || list.Files[0].Bytes != int64(len(content)) || list.Files[0].Executable {
		t.Errorf("the list is %+v, %v", list, err)
	}
	own, err := s.Files(ctx, session.OwnFiles)
	if err != nil || len(own.Files) == 0 || !strings.HasPrefix(own.Files[0].Path, session.OwnFiles) {
		t.Errorf("its own files are %+v, %v", own, err)
	}
	for path, kind := range map[string]session.Kind{"../x": session.KindNoAccess, "/x": session.KindNoAccess, session.OwnFiles + "x": session.KindNoAccess} {
		if err := session.Put(ctx, s, path, strings.NewReader(""), nil); session.KindOf(err) != kind {
			t.Errorf("put %s: got %v", path, err)
		}
		if err := s.RemoveFile(ctx, path); session.KindOf(err) != kind {
			t.Errorf("remove %s: got %v", path, err)
		}
	}
	if err := s.RemoveFile(ctx, dir+"/a.bin"); err != nil {
		t.Error(err)
	}
	if err := s.RemoveFile(ctx, dir+"/a.bin"); session.KindOf(err) != session.KindNoFile {
		t.Errorf("a second removal: got %v", err)
	}
}

// A failingReader returns its error.
type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }
