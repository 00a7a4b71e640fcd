package lineedit

import (
	"io"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// TextOfKeys returns the text that keys make in an editor of one line without a history.
func TextOfKeys(typed []byte, vi bool) string {
	var e Editor
	e.Begin(Options{Vi: vi}, nil)
	for source := (byteSource{rest: typed}); ; {
		k, err := keys.ReadKey(&source, vi)
		if err != nil {
			return e.Text()
		}
		e.Press(k)
	}
}

// A byteSource implements keys.KeySource for keys that have all been typed.
type byteSource struct{ rest []byte }

// NextRune implements keys.KeySource.
func (s *byteSource) NextRune(time.Duration) (rune, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	r, n := utf8.DecodeRune(s.rest)
	s.rest = s.rest[n:]
	return r, nil
}

// LastBurst implements keys.KeySource.
func (s *byteSource) LastBurst() keys.KeyBurst { return keys.KeyBurst{} }
