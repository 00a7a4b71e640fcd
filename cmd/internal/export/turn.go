package export

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// maxTurnBytes bounds the stored text and images of one turn, in bytes. The file says how much was
// left out.
const maxTurnBytes = 16 << 20

// maxKeysBytes bounds a line of typed keys, in bytes.
const maxKeysBytes = 500

// An exportedTurn holds an input with its result and output.
type exportedTurn struct {
	number uint64
	author string
	input  string
	bytes  int // of the whole input, of which input may be the start

	ended        *timeline.TurnEnded // nil while the turn runs
	answers      []timeline.InputLine
	events       []timeline.Event // its output
	eventBytes   int64            // bytes in events
	droppedBytes int64            // bytes beyond maxTurnBytes
}

// failureNote says why the input must not be run again, or returns "".
func (t *exportedTurn) failureNote() string {
	switch {
	case t.bytes > len(t.input):
		return fmt.Sprintf("is %d bytes long; only the beginning was stored", t.bytes)
	case t.ended == nil:
		return "was still running"
	case t.ended.Outcome == timeline.OutcomeOK:
		return ""
	case t.ended.Outcome == timeline.OutcomeError:
		text := "failed"
		if t.ended.Name != "" {
			text += ": " + t.ended.Name
		}
		if first, _, _ := strings.Cut(t.ended.Message, "\n"); first != "" {
			text += ": " + first
		}
		return text
	case t.ended.Outcome == timeline.OutcomeInterrupted:
		return "was interrupted"
	}
	return "ended with the runtime"
}

// omissionNote says which part of a turn is missing, or returns "".
func (t *exportedTurn) omissionNote() string {
	if t.droppedBytes == 0 {
		return ""
	}
	return fmt.Sprintf("%d more bytes of output are left out", t.droppedBytes)
}

// turnTitle returns the turn's number and author.
func (t *exportedTurn) turnTitle() string {
	text := "turn " + strconv.FormatUint(t.number, 10)
	if t.author != "" {
		text += " by " + t.author
	}
	return text
}

// addAnswer adds a line of input. Keys that an author types one by one become one line.
func (t *exportedTurn) addAnswer(b timeline.InputLine) {
	if n := len(t.answers); n > 0 && b.Keys {
		last := &t.answers[n-1]
		if last.Keys && last.Author == b.Author && last.Secret == b.Secret && len(last.Text)+len(b.Text) <= maxKeysBytes {
			last.Text += b.Text
			return
		}
	}
	t.answers = append(t.answers, b)
}

// keysLine describes keys that a program of the turn got. The marks keep a notebook from reading
// the name of a key, such as <Down>, as HTML.
func keysLine(b timeline.InputLine) string {
	keys, by := "the keys `"+b.Text+"`", ""
	if b.Secret {
		keys = "secret keys"
	}
	if b.Author != "" {
		by = " from " + b.Author
	}
	return "its program got " + keys + by
}

// answerLines describes the lines of input that the turn has read.
func (t *exportedTurn) answerLines() (lines []string) {
	for _, a := range t.answers {
		if a.Keys {
			lines = append(lines, keysLine(a))
			continue
		}
		answer := strconv.Quote(a.Text)
		if a.Secret {
			answer = "a secret"
		}
		lines = append(lines, fmt.Sprintf("it asked %q and was given %s", a.Prompt, answer))
	}
	return lines
}
