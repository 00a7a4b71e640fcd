package ipc

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// LogTo logs each frame at debug, before it is sent and after it has arrived: its type, its
// size, and [Attrs]. Call it before the first Send and Receive. It decides once whether l logs
// at debug, so that frames cost no more than one comparison.
func (c *Conn) LogTo(l *slog.Logger) {
	if l.Enabled(context.Background(), slog.LevelDebug) {
		c.log = l
	}
}

func (c *Conn) logFrame(from Side, m Message, bytes int) {
	attrs := []slog.Attr{slog.String("frame", m.Type()), slog.String("from", from.String())}
	if !messageTypes[m.Type()].confidential {
		attrs = append(attrs, slog.Int("bytes", bytes))
	}
	c.log.LogAttrs(context.Background(), slog.LevelDebug, "frame", append(attrs, LogAttrs(m)...)...)
}

// LogAttrs are what a log may have of a message: its numbers, and how long its texts and
// bytes are. Text and bytes themselves are the user's. Where they may be secret, so is
// their length.
func LogAttrs(m Message) []slog.Attr {
	var told []slog.Attr
	w := fieldVisitor{purpose: purposeDescribe, attrs: &told}
	kind := messageTypes[m.Type()]
	if kind.write != nil {
		kind.write(&w, m)
	}
	if kind.confidential {
		told = slices.DeleteFunc(told, func(a slog.Attr) bool { return strings.HasSuffix(a.Key, sizeSuffix) })
	}
	return told
}

// sizeSuffix marks the attribute for the length of a text or of bytes.
const sizeSuffix = "_bytes"

// describeField adds the attribute for a field.
func (w *fieldVisitor) describeField(name string, value any) {
	name = w.path + name
	a := slog.Any(name, value)
	switch v := value.(type) {
	case string:
		a = slog.Int(name+sizeSuffix, len(v))
	case []byte:
		a = slog.Int(name+sizeSuffix, len(v))
	case []string:
		a = slog.Int(name, len(v))
	case map[string][]byte:
		size := 0
		for _, b := range v {
			size += len(b)
		}
		a = slog.Int(name+sizeSuffix, size)
	}
	*w.attrs = append(*w.attrs, a)
}
