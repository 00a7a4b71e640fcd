package languages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// ipythonCommands maps commands of IPython to the plain Python or repl equivalent.
var ipythonCommands = map[string]string{
	"timeit":     "import timeit; timeit.timeit(lambda: …, number=1000)",
	"time":       "import time; t = time.perf_counter(); …; time.perf_counter() - t",
	"run":        `exec(open("FILE").read())`,
	"cd":         `import os; os.chdir("DIR")`,
	"pwd":        "import os; os.getcwd()",
	"ls":         "!ls",
	"pip":        "repl --with PACKAGE, or !pip install PACKAGE",
	"conda":      "!conda install PACKAGE",
	"who":        "dir()",
	"whos":       "dir()",
	"matplotlib": "not needed: plots are shown automatically",
	"debug":      "import pdb; pdb.pm()",
	"paste":      "not needed: paste the code; nothing runs before Enter",
	"edit":       "Ctrl-X Ctrl-E",
	"env":        "import os; os.environ",
	"reset":      "repl reset SESSION, or a new repl",
	"history":    "Ctrl-R",
}

var (
	helpPattern  = text.Pattern(`^(?:\?{1,2}\s*([\w.]+)|([\w.]+)\s*\?{1,2})$`)
	magicPattern = text.Pattern(`^%{1,2}(\w+)`)
	shellPattern = text.Pattern(`^(pip3?|uv|conda|mamba|git)\s+([a-z]+)\b`) // never Python, except before an operator
)

// shellJobScript runs a command as a shell runs a foreground job, in a separate process group.
// Ctrl-C goes to the command, and the prompt returns when the command has exited. An interrupt that
// also reaches the worker is left to the command. Two cases are different: the shell has not
// started yet, or the interrupt is forced.
const shellJobScript = `
import os, subprocess
command = %s
job = subprocess.Popen(command, shell=True) if os.name == "nt" else subprocess.Popen(["/bin/sh", "-mc", 'sh -c "$0"; exit $?', command])
try:
    while job.returncode is None:
        try:
            job.wait()
        except KeyboardInterrupt:
            if os.name != "nt" and os.tcgetpgrp(0) == os.getpgrp():
                break
finally:
    job.kill()
`

// translatePythonInput translates commands of other Python prompts into Python. An error names the
// plain equivalent instead. Other code is returned unchanged.
func translatePythonInput(code string) (string, error) {
	switch line := strings.TrimSpace(code); {
	case line == "exit" || line == "quit":
		// The user may have redefined the name by now.
		return fmt.Sprintf(`%s() if type(%[1]s).__module__ == "_sitebuiltins" else %[1]s`, line), nil
	case strings.HasPrefix(line, "!") && !strings.Contains(line, "\n") && strings.TrimLeft(line, "! \t") != "":
		return programCode(fmt.Sprintf(shellJobScript, pythonString(strings.TrimLeft(line, "! \t")))), nil
	case helpPattern().MatchString(line):
		found := helpPattern().FindStringSubmatch(line)
		return "help(" + found[1] + found[2] + ")", nil
	case magicPattern().MatchString(line):
		name := magicPattern().FindStringSubmatch(line)[1]
		if plain, ok := ipythonCommands[name]; ok {
			return "", fmt.Errorf("%%%s is a command of IPython; instead, use: %s", name, plain)
		}
		return "", fmt.Errorf("%%%s is a command of IPython; it does not work here", name)
	case shellPattern().MatchString(line) && !strings.Contains(line, "\n"):
		words := shellPattern().FindStringSubmatch(line)
		if !slices.Contains([]string{"if", "in", "is", "and", "or", "not", "for"}, words[2]) {
			return "", fmt.Errorf("%s is a command of the shell; instead, use: !%s", words[1], line)
		}
	}
	return code, nil
}
