// Package edit is an editor of texts of several lines at a terminal, such as the inputs
// of a REPL. It reads keys from a Source and draws with a Painter; it opens and reads
// nothing itself, so its caller decides who has the terminal.
//
//	e := edit.New(edit.Options{Whole: isWhole, Complete: complete}, history)
//	for {
//		key, err := edit.ReadKey(source, e.WantsEscape())
//		…
//		if e.Press(key) == edit.OutcomeAccept {
//			return e.Text()
//		}
//		painter.Draw(e.View())
//	}
//
// The keys are those of readline in its Emacs mode, or in its vi mode. A history has whole
// texts, and not lines.
//
// No type is for several goroutines at a time. A View never changes, so another goroutine
// may draw it. The package starts no goroutines.
package lineedit
