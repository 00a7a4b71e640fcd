package cli

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
)

// Variables that choose what the flags do not.
const (
	logVariable      = "REPL_LOG"
	logLevelVariable = "REPL_LOG_LEVEL"
)

// logChoice says where a command logs, and how much.
type logChoice struct{ file, level string }

// define adds the flags that make the choice.
func (c *logChoice) define(f *flag.FlagSet) { c.defineAs(f, "default "+logVariable) }

// defineAs is define, with a text that says where the log goes without the flags.
func (c *logChoice) defineAs(f *flag.FlagSet, without string) {
	f.StringVar(&c.file, "log", os.Getenv(logVariable), fmt.Sprintf("`FILE` log to this file, never code, output or secrets; %d MiB, plus the file before; %s", maxLogBytes>>20, without))
	f.StringVar(&c.level, "log-level", os.Getenv(logLevelVariable), fmt.Sprintf("`debug|info|warn|error` how much is logged, to FILE or to standard error; default %s, or info for FILE", logLevelVariable))
}

// levelOf returns the level of that name. usual replaces "".
func levelOf(name string, usual slog.Level) (slog.Level, error) {
	levels := map[string]slog.Level{"": usual, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[name]
	if !ok {
		return 0, misuse("--log-level %s: use debug, info, warn or error", name)
	}
	return level, nil
}

// logger is the log that was chosen. Where there is a file, stderr gets warnings; nil
// means that the command says what matters there in its own words.
func (c *logChoice) logger(stderr io.Writer) (*slog.Logger, error) {
	level, err := levelOf(c.level, slog.LevelInfo)
	if err != nil {
		return nil, err
	}
	var handlers []slog.Handler
	switch {
	case c.file == "" && c.level != "":
		handlers = append(handlers, textHandler(cmp.Or(stderr, io.Writer(os.Stderr)), level))
	case stderr != nil:
		handlers = append(handlers, textHandler(stderr, slog.LevelWarn))
	}
	if c.file != "" {
		to, err := openLog(c.file)
		if err != nil {
			return nil, misuse("cannot write the log: %v", err)
		}
		handlers = append(handlers, textHandler(to, level))
	}
	return newLogger(handlers...), nil
}

// spareTerminal keeps log lines off a terminal that shows a session.
func (c *logChoice) spareTerminal(f *flag.FlagSet) error {
	if c.file == "" {
		if isSet(f, "log-level") {
			return misuse("--log-level needs --log FILE here: the terminal is the session's")
		}
		c.level = ""
	}
	return nil
}

func textHandler(to io.Writer, level slog.Level) slog.Handler {
	return slog.NewTextHandler(to, &slog.HandlerOptions{Level: level})
}

// newLogger returns a log with the program's name on each line, because several programs may
// share a file.
func newLogger(to ...slog.Handler) *slog.Logger {
	return slog.New(slog.NewMultiHandler(to...)).With("pid", os.Getpid())
}
