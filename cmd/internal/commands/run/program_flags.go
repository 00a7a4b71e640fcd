package run

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/workers"
)

// programFlags holds the program on a command line, given by -e, -c, -m or as a file.
type programFlags struct {
	code                   cmdkit.CodeFlag
	cCode, module          string
	interactive            bool
	fileArgs               []string // FILE and its arguments
	extraArgs              []string // arguments after -c or -m
	hasE, hasC, hasProgram bool     // -e is set; -c or -m is set; any program is given
}

func (p *programFlags) AddFlags(f *flag.FlagSet) {
	f.Var(&p.code, "e", cmdkit.CodeUsage)
	f.StringVar(&p.cCode, "c", "", "`CODE` run this code as python -c does: values are not shown, and further words are its arguments")
	f.StringVar(&p.module, "m", "", "`MODULE` run a module as python -m does; further words are its arguments")
	f.BoolVar(&p.interactive, "i", false, "continue at the prompt afterwards, in the same session")
}

// splitProgramArgs splits args after the value of -c or -m: the rest belongs to the program.
func splitProgramArgs(f *flag.FlagSet, args []string) (own, rest []string) {
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
		if one == nil { // unknown, or --name=value
			continue
		}
		if b, ok := one.Value.(interface{ IsBoolFlag() bool }); !ok || !b.IsBoolFlag() {
			i++
		}
	}
	return args, nil
}

// parseArgs parses the command line with flags f.
func (p *programFlags) parseArgs(f *flag.FlagSet, args []string) error {
	args, p.extraArgs = splitProgramArgs(f, args)
	if err := cmdkit.ParseFlags(f, args); err != nil {
		return err
	}
	p.fileArgs, p.hasE, p.hasC = f.Args(), cmdkit.IsFlagSet(f, "e"), cmdkit.IsFlagSet(f, "c") || cmdkit.IsFlagSet(f, "m")
	p.hasProgram = p.hasE || p.hasC || len(p.fileArgs) > 0
	switch {
	case p.hasE && len(p.fileArgs) > 0:
		return cmdkit.UsageErrorf("use either -e or the file %q, not both", p.fileArgs[0])
	case p.hasE && p.hasC:
		return cmdkit.UsageErrorf("use either -e, or -c or -m, not both")
	case p.interactive && !console.IsUsable():
		return cmdkit.UsageErrorf("-i needs a terminal")
	case p.interactive && len(p.fileArgs) > 0 && p.fileArgs[0] == languages.StandardInput:
		return cmdkit.UsageErrorf("-i and %s both read standard input", languages.StandardInput)
	}
	return nil
}

// namedFile returns the file that the command line names, if there is one.
func (p *programFlags) namedFile() (name string, ok bool) {
	if p.hasE || len(p.fileArgs) == 0 || p.fileArgs[0] == languages.StandardInput {
		return "", false
	}
	return p.fileArgs[0], true
}

// scriptFile returns the file that the command line names and that may have a block "script", or "".
func (p *programFlags) scriptFile() string {
	if !p.isFile() {
		return ""
	}
	return p.fileArgs[0]
}

// isFile reports whether the program is a file.
func (p *programFlags) isFile() bool {
	return p.hasProgram && !p.hasE && !p.hasC && p.fileArgs[0] != languages.StandardInput
}

// invocationArgs returns the program as the language's own command takes it: an option and its
// value, or "" and a file, and the program's arguments.
func (p *programFlags) invocationArgs() (option, text string, args []string) {
	switch {
	case p.hasC && p.module != "":
		return "-m", p.module, p.extraArgs
	case p.hasC:
		return "-c", p.cCode, p.extraArgs
	}
	return "", p.fileArgs[0], p.fileArgs[1:]
}

// checkLanguage rejects a program that the language does not support.
func (p *programFlags) checkLanguage(lang languages.Language) error {
	if p.hasC && lang.OptionInput == nil {
		return cmdkit.UsageErrorf("-c and -m are options of Python; use -e for code of %s", lang.Display)
	}
	return nil
}

// programInput returns the program as an input of the language. It may change how the runtime
// starts.
func (p *programFlags) programInput(lang languages.Language, spec *workers.Spec) (string, error) {
	if p.hasE {
		return p.code.String(), nil
	}
	option, text, args := p.invocationArgs()
	if option != "" {
		return lang.OptionInput(option, text, args), nil
	}
	path := text
	if path != languages.StandardInput {
		var err error
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	code, err := lang.FileInput(spec, path, text, args)
	if err != nil {
		return "", fmt.Errorf("cannot run the file: %w", err)
	}
	return code, nil
}
