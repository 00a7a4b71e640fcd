package cli

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

// Variables that set the defaults of the flags.
const (
	logEnv      = "TURNSTONE_LOG"
	logLevelEnv = "TURNSTONE_LOG_LEVEL"
)

// logFlags chooses where a command logs, and how much.
type logFlags struct{ file, level string }

// addFlags adds the flags that make the choice.
func (l *logFlags) addFlags(f *flag.FlagSet) { l.addFlagsWithDefault(f, "default "+logEnv) }

// addFlagsWithDefault adds the flags. without describes where the log goes without them.
func (l *logFlags) addFlagsWithDefault(f *flag.FlagSet, without string) {
	f.StringVar(&l.file, "log", os.Getenv(logEnv), fmt.Sprintf("`FILE` log to this file, without code, output or secrets; up to %d MiB, plus one older file; %s", maxLogBytes>>20, without))
	f.StringVar(&l.level, "log-level", os.Getenv(logLevelEnv), fmt.Sprintf("`debug|info|warn|error` how much is logged, to FILE or to standard error; default %s, or info for FILE", logLevelEnv))
}

// parseLogLevel returns the level with a name, or defaultLevel for "".
func parseLogLevel(name string, defaultLevel slog.Level) (slog.Level, error) {
	levels := map[string]slog.Level{"": defaultLevel, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[name]
	if !ok {
		return 0, cmdkit.UsageErrorf("--log-level %s: use debug, info, warn or error", name)
	}
	return level, nil
}

// openLogger opens the chosen log. If it is a file, warnings also go to stderr; with a nil stderr,
// the command reports them itself.
func (l *logFlags) openLogger(stderr io.Writer) (*slog.Logger, error) {
	level, err := parseLogLevel(l.level, slog.LevelInfo)
	if err != nil {
		return nil, err
	}
	var handlers []slog.Handler
	switch {
	case l.file == "" && l.level != "":
		handlers = append(handlers, newTextHandler(cmp.Or(stderr, io.Writer(os.Stderr)), level))
	case stderr != nil:
		handlers = append(handlers, newTextHandler(stderr, slog.LevelWarn))
	}
	if l.file != "" {
		to, err := openLog(l.file)
		if err != nil {
			return nil, cmdkit.UsageErrorf("cannot write the log: %v", err)
		}
		handlers = append(handlers, newTextHandler(to, level))
	}
	return newLogger(handlers...), nil
}

// keepOffTerminal keeps log lines off a terminal that shows a session.
func (l *logFlags) keepOffTerminal(f *flag.FlagSet) error {
	if l.file == "" {
		if cmdkit.IsFlagSet(f, "log-level") {
			return cmdkit.UsageErrorf("--log-level needs --log FILE here, because the terminal belongs to the session")
		}
		l.level = ""
	}
	return nil
}

func newTextHandler(to io.Writer, level slog.Level) slog.Handler {
	return slog.NewTextHandler(to, &slog.HandlerOptions{Level: level})
}

// newLogger returns a logger with the process ID on each line, because several programs may share a
// file.
func newLogger(to ...slog.Handler) *slog.Logger {
	return slog.New(slog.NewMultiHandler(to...)).With("pid", os.Getpid())
}
