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
// The keys are those of readline in its Emacs mode or its vi mode. A history holds whole texts, not
// lines.
//
// No value may be used by several goroutines at a time. A Frame never changes, so another goroutine
// may draw it. The package starts no goroutines.
package lineedit
