package sessions

import (
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

// The question quotes a link that code may have made. Its name must not hide the rest of the question.
func TestConfirmGrant_SanitizesOutput(t *testing.T) {
	t.Parallel()
	const target = "/data/\u2800x\x1b[8m"
	for _, c := range []struct {
		accept, answer string
		ok             bool
	}{
		{"", "y", true}, {"", "n", false},
		{target, `"/data/\u2800x\x1b[8m"`, true}, {target, target, true}, {target, "y", false}, {target, "/data/x", false},
	} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteString(c.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		var said strings.Builder
		given := 0
		err = confirmGrant(cmdkit.Streams{In: in, Err: &said}, session.Grant{Write: "/work/link"}, func(g session.Grant) error {
			if given++; g.Write == target {
				return nil
			}
			return &session.Error{Kind: session.KindUnconfirmed, Grant: &session.Grant{Write: target, Accept: c.accept}, Message: "/work/\x1b[8mlink leads to " + target}
		})
		_ = in.Close()
		if (err == nil) != c.ok || (given == 2) != c.ok {
			t.Errorf("%q: got %v after %d tries", c.answer, err, given)
		}
		for line := range strings.Lines(said.String()) {
			if line = strings.TrimSuffix(line, "\n"); text.EscapeInvisible(line) != line {
				t.Errorf("the terminal gets %q", line)
			}
		}
	}
}

func TestOneLine_SanitizesErrors(t *testing.T) {
	t.Parallel()
	err := session.Errorf(session.KindInvalid, "/x\x1b[8m\u202e cannot be allowed\n\tit is hidden")
	if got, want := cmdkit.ErrorLine(err), "/x cannot be allowed;  it is hidden"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
