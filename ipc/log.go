package ipc

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// LogTo logs each frame at debug level, before it is sent and after it has arrived: its type,
// its size, and [LogAttrs]. Call it before the first Send and Receive. It checks once whether l
// logs at debug level, so that frames cost only one comparison.
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

// LogAttrs returns the parts of a message that may be logged: its numbers, and the lengths of
// its texts and bytes. Texts and bytes belong to the user and are never logged. Where they may
// be secret, their length is not logged either.
func LogAttrs(m Message) []slog.Attr {
	var attrs []slog.Attr
	w := fieldVisitor{purpose: purposeDescribe, attrs: &attrs}
	kind := messageTypes[m.Type()]
	if kind.write != nil {
		kind.write(&w, m)
	}
	if kind.confidential {
		attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool { return strings.HasSuffix(a.Key, sizeSuffix) })
	}
	return attrs
}

// sizeSuffix ends the name of the attribute for the length of a text or of bytes.
const sizeSuffix = "_bytes"

// describeField adds the log attribute of a field.
func (f *fieldVisitor) describeField(name string, value any) {
	name = f.path + name
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
	*f.attrs = append(*f.attrs, a)
}
