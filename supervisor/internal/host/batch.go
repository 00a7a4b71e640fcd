package host

import (
	"errors"
	"path"
	"strings"
)

// isBatch reports whether a program is a batch file of Windows.
func isBatch(program string) bool {
	ext := strings.ToLower(path.Ext(strings.ReplaceAll(program, `\`, "/")))
	return ext == ".bat" || ext == ".cmd"
}

// batchLine returns the command line that runs a batch file by cmd.exe, which the system would start
// for it anyway. A batch file has no words but what cmd.exe makes of the line: it would take & for
// the end of a command, and %PATH% for a variable (Microsoft, "cmd").
//
// It is the same on every system, so that it can be tested on every system.
func batchLine(shell, file string, args []string) (string, error) {
	var b strings.Builder
	// /d: without AutoRun. The variables below need the extensions, and ! must be no variable.
	b.WriteString(`"` + shell + `" /e:on /v:off /d /s /c "` + `"` + file + `"`)
	for _, arg := range args {
		if strings.ContainsAny(arg, "\r\n\x00") {
			return "", errors.New("a batch file cannot get an argument of several lines")
		}
		b.WriteString(` "`)
		backslashes := 0
		for _, c := range arg {
			switch c {
			case '\\':
				backslashes++
			case '"':
				// A second one keeps cmd.exe between quotes, and a program takes two for one. Programs with
				// the C library of before 2008, and Go's, take them for the end of the quotes, too.
				b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
			case '%': // a part of a variable that has nothing in it, and a percent sign
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
