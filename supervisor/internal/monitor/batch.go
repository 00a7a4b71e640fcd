package monitor

import (
	"errors"
	"path"
	"strings"
)

// isBatch reports whether a program is a Windows batch file.
func isBatch(program string) bool {
	ext := strings.ToLower(path.Ext(strings.ReplaceAll(program, `\`, "/")))
	return ext == ".bat" || ext == ".cmd"
}

// batchLine returns the command line that runs a batch file through cmd.exe, which the system would
// start for it anyway. cmd.exe alone splits the line into arguments: it would take & for the end
// of a command, and %PATH% for a variable (Microsoft, "cmd").
//
// It does not depend on the system, so that it can be tested on every system.
func batchLine(shell, file string, args []string) (string, error) {
	var b strings.Builder
	// /d: without AutoRun. The variables below need the extensions, and ! must not start a variable.
	b.WriteString(`"` + shell + `" /e:on /v:off /d /s /c "` + `"` + file + `"`)
	for _, arg := range args {
		if strings.ContainsAny(arg, "\r\n\x00") {
			return "", errors.New("a batch file cannot take an argument of more than one line")
		}
		b.WriteString(` "`)
		backslashes := 0
		for _, c := range arg {
			switch c {
			case '\\':
				backslashes++
			case '"':
				// A second quote keeps cmd.exe inside quotes, and a program takes two for one. Programs with
				// a C library from before 2008, and Go programs, also take them for the end of the quotes.
				b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
			case '%': // a substring of a variable that is empty, and a percent sign
				b.WriteString(`%%cd:~,`)
			}
			if c != '\\' {
				backslashes = 0
			}
			b.WriteRune(c)
		}
		b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
	}
	b.WriteString(`"`)
	return b.String(), nil
}
