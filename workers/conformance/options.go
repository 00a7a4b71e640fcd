package conformance

import (
	"log/slog"
	"time"
)

// Options are the settings of Run; nil means the defaults.
type Options struct {
	// Dialect contains code in the worker's language. A check is skipped if its snippet is
	// missing.
	Dialect Dialect

	// Timeout bounds each step that waits for the worker. A conforming worker never reaches it.
	// 0 means 10 s.
	Timeout time.Duration

	// Logger logs each check and, at debug level, every frame: its fields and sizes, never its
	// contents. nil logs nothing.
	Logger *slog.Logger
}
