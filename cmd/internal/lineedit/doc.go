// Package lineedit edits texts of several lines at a terminal, such as the inputs of a REPL. It
// reads keys (package keys) and draws with a Painter. It opens no terminal and reads no file, so
// its caller decides who has the terminal.
//
//	var e lineedit.Editor
//	e.Begin(lineedit.Options{IsComplete: isComplete, Complete: complete}, history)
//	for {
//		key, err := keys.ReadKey(source, e.WantsEscape())
//		…
//		if e.Press(key) == lineedit.OutcomeAccept {
//			return e.Text()
//		}
//		painter.Draw(e.Frame())
//	}
//
// The keys are those of readline in its Emacs mode or its vi mode. An entry of the history is a
// whole text, not a line.
//
// No value may be used by several goroutines at a time. A Frame never changes, so another goroutine
// may draw it. The package starts no goroutines.
//
// # Width of characters
//
// A family of joined emoji, a flag or a decomposed Hangul syllable is one character for the reader,
// and two cells wide in most terminals. The sum of the widths of its parts put the cursor up to
// seven columns off. So github.com/rivo/uniseg finds these clusters and their width. Terminals
// differ, so after each such cluster the painter sets the column.
//
// Our own rules were rejected, because they would have to follow every version of Unicode.
// golang.org/x/text was rejected, because it has no grapheme clusters. Asking the terminal for its
// cursor was rejected: the answer arrives among the keys, and some terminals never answer.
package lineedit
