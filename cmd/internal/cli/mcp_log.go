package cli

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
)

// logChoice says where an MCP server logs, and how much.
type logChoice struct{ file, level string }

// define adds the flags that make the choice.
func (c *logChoice) define(f *flag.FlagSet) {
	f.StringVar(&c.file, "log", "", fmt.Sprintf("`FILE` note requests, refusals, sessions and crashes there, never code, output or secrets; %d MiB, and as much of before", maxLogBytes>>20))
	f.StringVar(&c.level, "log-level", "info", "`info|warn|error` how much is noted")
}

// logger returns the chosen log. Warnings also go to standard error, which clients keep or
// show.
func (c *logChoice) logger(stderr io.Writer) (*slog.Logger, error) {
	warnings := slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	levels := map[string]slog.Level{"info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[c.level]
	switch {
	case !ok:
		return nil, misuse("--log-level %s: want info, warn or error", c.level)
	case c.file == "":
		return slog.New(warnings), nil
	}
	to, err := openLog(c.file)
	if err != nil {
		return nil, misuse("cannot write the log: %v", err)
	}
	return slog.New(slog.NewMultiHandler(warnings, slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))), nil
}
