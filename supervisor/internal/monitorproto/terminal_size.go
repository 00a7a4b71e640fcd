package monitorproto

// TerminalSize is the size of a terminal in character cells; the zero value means 40 rows and 120
// columns.
type TerminalSize struct{ Rows, Cols uint16 }

// OrDefault returns s, or the default size for the zero value.
func (s TerminalSize) OrDefault() TerminalSize {
	if s == (TerminalSize{}) {
		return TerminalSize{Rows: 40, Cols: 120}
	}
	return s
}
