package cmdflags

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

// These environment variables set the defaults of the flags.
const (
	LogEnv      = "TURNSTONE_LOG"
	logLevelEnv = "TURNSTONE_LOG_LEVEL"
)

// LogFlags chooses where a command logs, and how much.
type LogFlags struct{ File, Level string }

// AddFlags adds the flags that make the choice.
func (l *LogFlags) AddFlags(f *flag.FlagSet) { l.AddFlagsWithDefault(f, "default "+LogEnv) }

// AddFlagsWithDefault adds the flags. without describes where the log goes if they are not given.
func (l *LogFlags) AddFlagsWithDefault(f *flag.FlagSet, without string) {
	f.StringVar(&l.File, "log", os.Getenv(LogEnv), fmt.Sprintf("`FILE` log to this file, without code, output or secrets; up to %d MiB, plus one older file; %s", maxLogBytes>>20, without))
	f.StringVar(&l.Level, "log-level", os.Getenv(logLevelEnv), fmt.Sprintf("`debug|info|warn|error` the least severe messages that are logged, to FILE or to standard error; default %s, or info for FILE", logLevelEnv))
}

// ParseLogLevel returns the level with a name, or defaultLevel for "".
func ParseLogLevel(name string, defaultLevel slog.Level) (slog.Level, error) {
	levels := map[string]slog.Level{"": defaultLevel, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[name]
	if !ok {
		return 0, cmdkit.UsageErrorf("--log-level %s: use debug, info, warn or error", name)
	}
	return level, nil
}

// OpenLogger opens the chosen log. If it is a file, warnings also go to stderr; with a nil stderr,
// the command reports them itself.
func (l *LogFlags) OpenLogger(stderr io.Writer) (*slog.Logger, error) {
	level, err := ParseLogLevel(l.Level, slog.LevelInfo)
	if err != nil {
		return nil, err
	}
	var handlers []slog.Handler
	switch {
	case l.File == "" && l.Level != "":
		handlers = append(handlers, NewTextHandler(cmp.Or(stderr, io.Writer(os.Stderr)), level))
	case stderr != nil:
		handlers = append(handlers, NewTextHandler(stderr, slog.LevelWarn))
	}
	if l.File != "" {
		to, err := OpenLog(l.File)
		if err != nil {
			return nil, cmdkit.UsageErrorf("cannot write the log: %v", err)
		}
		handlers = append(handlers, NewTextHandler(to, level))
	}
	return NewLogger(handlers...), nil
}

// KeepOffTerminal keeps log lines off a terminal that shows a session.
func (l *LogFlags) KeepOffTerminal(f *flag.FlagSet) error {
	if l.File == "" {
		if cmdkit.IsFlagSet(f, "log-level") {
			return cmdkit.UsageErrorf("--log-level needs --log FILE here, because the terminal belongs to the session")
		}
		l.Level = ""
	}
	return nil
}

// NewTextHandler returns a handler that writes text from a level on.
func NewTextHandler(to io.Writer, level slog.Level) slog.Handler {
	return slog.NewTextHandler(to, &slog.HandlerOptions{Level: level})
}

// NewLogger returns a logger with the process ID on each line, because several programs may share a
// file.
func NewLogger(to ...slog.Handler) *slog.Logger {
	return slog.New(slog.NewMultiHandler(to...)).With("pid", os.Getpid())
}
