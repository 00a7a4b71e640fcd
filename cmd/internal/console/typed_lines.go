package console

import (
	"bytes"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// A programMark says which unread lines were typed for a program: those that begin before to and
// end after from. The positions are counted like keyReader.readCount.
type programMark struct {
	from, to int
	program  string // its name; "" if it is unknown
	secret   bool   // the line is the rest of a secret
}

// markTyped notes that a program listened while the bytes up to to were unread, and while the line
// that begins at from was typed. It replaces a mark whose lines are all read.
func (k *keyReader) markTyped(m programMark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.markTypedLocked(m)
}

func (k *keyReader) markTypedLocked(m programMark) {
	if k.mark.to > k.readCount {
		m.from, m.to = min(m.from, k.mark.from), max(m.to, k.mark.to)
		m.secret = m.secret || k.mark.secret
		if m.program == "" {
			m.program = k.mark.program
		}
	}
	k.mark = m
}

// markOfLine returns the mark of the line between two positions, and whether it has one.
func (k *keyReader) markOfLine(begin, end int) (programMark, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark, begin < k.mark.to && end > k.mark.from
}

// startLine notes that the edited line is empty, so the next key is its first one.
func (k *keyReader) startLine() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lineBegin = k.readCount
}

// markOfEdited is markOfLine for the line that was edited last.
func (k *keyReader) markOfEdited() (programMark, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark, k.lineBegin < k.mark.to && k.readCount > k.mark.from
}

// readPosition returns the position of the next unread byte.
func (k *keyReader) readPosition() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.readCount
}

// A typedLine is an unread line, or its beginning.
type typedLine struct {
	begin, end int    // positions like keyReader.readCount
	keys       []byte // without the Enter
	complete   bool   // the user has pressed Enter, or Ctrl-D at its start
}

// isEnd reports whether the line is the end of input.
func (l *typedLine) isEnd() bool { return l.complete && len(l.keys) == 1 && l.keys[0] == ctrlD }

// lineAfter returns the first unread line after a position, and the position of the end of all
// unread bytes.
func (k *keyReader) lineAfter(position int) (line typedLine, end int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	begin := max(position, k.readCount)
	end = k.readCount + len(k.typed)
	rest := k.typed[min(begin-k.readCount, len(k.typed)):]
	n, enter := keys.LineLength(rest)
	return typedLine{begin: begin, end: begin + n, keys: bytes.Clone(rest[:n-enter]), complete: enter > 0 || n == 1 && rest[0] == ctrlD}, end
}

// removeLine removes an unread line, unless something has read or dropped it.
func (k *keyReader) removeLine(l typedLine) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, n := l.begin-k.readCount, l.end-l.begin
	switch {
	case at < 0 || at+n > len(k.typed):
		return
	case at == 0:
		k.typed = k.typed[n:]
		k.readCount += n
		return
	}
	k.typed = append(k.typed[:at:at], k.typed[at+n:]...)
	k.bursts = nil // they describe positions that have changed
	if k.mark.from >= l.end {
		k.mark.from -= n
	}
	if k.mark.to >= l.end {
		k.mark.to -= n
	}
}

// unreadText puts the text of an edited line back, so that its next keys continue it. The line is
// marked. Of a secret, only the mark remains.
func (k *keyReader) unreadText(text, program string, secret bool) {
	if text == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.readCount
	if secret {
		k.markTypedLocked(programMark{from: at, to: at + 1, program: program, secret: true})
		return
	}
	paste := keys.PasteStart + text + keys.PasteEnd // no part of it is a key
	k.typed = append([]byte(paste), k.typed...)
	k.readCount -= len(paste)
	k.markTypedLocked(programMark{from: k.readCount, to: at, program: program})
}

// dropSecretRest drops the unread rest of a secret whose request is over.
func (k *keyReader) dropSecretRest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mark.secret && k.mark.to > k.readCount {
		n, _ := keys.LineLength(k.typed)
		k.typed = k.typed[n:]
		k.readCount += n
	}
}

// explainLine tells the user what became of a marked line.
func (m programMark) explainLine() string {
	program := m.program
	if program == "" {
		program = "a program"
	}
	if m.secret {
		return "your answer was for " + program + ", which no longer reads it; it was dropped"
	}
	return "your line was for " + program + ", which no longer reads it; Ctrl-Y brings it back"
}

// keyText returns text in the notation of session.Keys.
func keyText(text string) string { return strings.ReplaceAll(text, "<", "<lt>") }
