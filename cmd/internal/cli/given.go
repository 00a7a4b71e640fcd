package cli

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
	"github.com/turnstone-repl/turnstone/workers"
)

// standardInput stands for a file: the program is what is piped in.
const standardInput = "-"

// given is the program on a command line, by -e, -c, -m or as a file.
type given struct {
	code         code
	own, module  string
	stay         bool
	files        []string // FILE and its arguments
	more         []string // arguments of -c or -m
	byE, byC, is bool     // -e is set; -c or -m is; there is a program
}

func (g *given) define(f *flag.FlagSet) {
	f.Var(&g.code, "e", codeWords)
	f.StringVar(&g.own, "c", "", "`CODE` run this code as python -c does: values are not shown, and the rest are its arguments")
	f.StringVar(&g.module, "m", "", "`MODULE` run a module as python -m does; the rest are its arguments")
	f.BoolVar(&g.stay, "i", false, "then go on at the prompt, in the same session")
}

// cutProgram splits args behind the value of -c or -m: the rest belongs to the program.
func cutProgram(f *flag.FlagSet, args []string) (own, rest []string) {
	for i := 0; i < len(args); i++ {
		name := strings.TrimLeft(args[i], "-")
		switch {
		case !strings.HasPrefix(args[i], "-") || name == "":
			return args, nil
		case args[i] == "-c" || args[i] == "-m":
			end := min(i+2, len(args))
			return args[:end], args[end:]
		}
		one := f.Lookup(name)
		if one == nil { // unknown, or with its value
			continue
		}
		if b, ok := one.Value.(interface{ IsBoolFlag() bool }); !ok || !b.IsBoolFlag() {
			i++
		}
	}
	return args, nil
}

// parse parses the command line with flags f.
func (g *given) parse(f *flag.FlagSet, args []string) error {
	args, g.more = cutProgram(f, args)
	if err := parse(f, args); err != nil {
		return err
	}
	g.files, g.byE, g.byC = f.Args(), isSet(f, "e"), isSet(f, "c") || isSet(f, "m")
	g.is = g.byE || g.byC || len(g.files) > 0
	switch {
	case g.byE && len(g.files) > 0:
		return misuse("use either -e or the file %q, not both", g.files[0])
	case g.byE && g.byC:
		return misuse("use either -e, or -c or -m, not both")
	case g.stay && !terminal.Usable():
		return misuse("-i needs a terminal")
	case g.stay && len(g.files) > 0 && g.files[0] == standardInput:
		return misuse("-i and %s both read standard input", standardInput)
	case !g.byE && len(g.files) > 0 && g.files[0] != standardInput:
		return isFile(g.files[0])
	}
	return nil
}

// isFile reports whether the program is a file.
func (g *given) isFile() bool { return g.is && !g.byE && !g.byC && g.files[0] != standardInput }

// called returns the program as the language's own command has it: an option and its value, or ""
// and a file, and the program's arguments.
func (g *given) called() (option, text string, args []string) {
	switch {
	case g.byC && g.module != "":
		return "-m", g.module, g.more
	case g.byC:
		return "-c", g.own, g.more
	}
	return "", g.files[0], g.files[1:]
}

// check refuses a program that the language cannot have.
func (g *given) check(lang language) error {
	if g.byC && lang.called == nil {
		return misuse("-c and -m are options of Python; code of %s is given with -e", lang.display)
	}
	return nil
}

// input returns the program as an input of the language. It may change how the runtime starts.
func (g *given) input(lang language, spec *workers.Spec) (string, error) {
	if g.byE {
		return g.code.String(), nil
	}
	option, text, args := g.called()
	if option != "" {
		return lang.called(option, text, args), nil
	}
	path := text
	if path != standardInput {
		var err error
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	code, err := lang.file(spec, path, text, args)
	if err != nil {
		return "", fmt.Errorf("cannot run the file: %w", err)
	}
	return code, nil
}
