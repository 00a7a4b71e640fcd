package sessions

import (
	"context"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/session"
)

// sessionWithOddFile is a session whose code has made a file with an odd name.
type sessionWithOddFile struct{ session.Session }

func (sessionWithOddFile) Files(context.Context, string) (session.FileList, error) {
	return session.FileList{Files: []session.File{{Name: "a\x1b]0;title\a\n\u202eb"}}}, nil
}

func TestListFiles_SanitizesNames(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if _, err := listFiles(t.Context(), &daemonlink.DaemonCommand{}, cmdkit.Streams{Out: &out}, sessionWithOddFile{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "ab    0 bytes ") {
		t.Errorf("%q", lines)
	}
}
