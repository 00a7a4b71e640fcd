package ipc

import "log/slog"

// Attrs returns the parts of a message that a log may have: its numbers, and the lengths
// of its texts and bytes, which may be secret themselves.
func Attrs(m Message) []slog.Attr {
	var told []slog.Attr
	w := walk{purpose: describing, told: &told}
	if kind, ok := messageTypes[m.Type()]; ok {
		kind.write(&w, m)
	}
	return told
}

// describe adds the attribute for a field.
func (w *walk) describe(name string, value any) {
	name = w.path + name
	a := slog.Any(name, value)
	switch v := value.(type) {
	case string:
		a = slog.Int(name+"_bytes", len(v))
	case []byte:
		a = slog.Int(name+"_bytes", len(v))
	case []string:
		a = slog.Int(name, len(v))
	}
	*w.told = append(*w.told, a)
}
