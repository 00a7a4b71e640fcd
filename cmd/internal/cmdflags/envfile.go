package cmdflags

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// maxEnvFileBytes bounds the size of a file of variables.
const maxEnvFileBytes = 1 << 20

// VariableName matches a name that an environment variable of a session may have.
var VariableName = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readEnvFile reads a file of lines NAME=VALUE, as "K=V".
func readEnvFile(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEnvFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxEnvFileBytes {
		return nil, fmt.Errorf("%s is larger than %d MiB, which is too large for a file of variables", path, maxEnvFileBytes>>20)
	}
	var env []string
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		number++
		variable, err := parseEnvLine(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, number, err)
		}
		if variable != "" {
			env = append(env, variable)
		}
	}
	return env, nil
}

// parseEnvLine returns the variable in a line as "K=V", or "" if the line has none.
func parseEnvLine(line string) (string, error) {
	if line == "" || line[0] == '#' {
		return "", nil
	}
	name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
	name = strings.TrimSpace(name)
	switch {
	case !ok:
		return "", errors.New("not NAME=VALUE")
	case !VariableName().MatchString(name):
		return "", fmt.Errorf("%q is not a valid variable name", name)
	case strings.ContainsRune(value, 0):
		return "", errors.New("a variable cannot hold a NUL")
	}
	value, err := unquoteEnvValue(strings.TrimSpace(value))
	return name + "=" + value, err
}

// unquoteEnvValue removes the quotes. In double quotes, \n, \t, \", \$ and \\ are escapes. $NAME is
// not expanded.
func unquoteEnvValue(text string) (string, error) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		text, _, _ = strings.Cut(text, " #")
		return strings.TrimSpace(text), nil
	}
	quote := text[0]
	var value strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			if rest := strings.TrimSpace(text[i+1:]); rest != "" && rest[0] != '#' {
				return "", fmt.Errorf("unexpected %q after the closing quote", rest)
			}
			return value.String(), nil
		case c == '\\' && quote == '"' && i+1 < len(text):
			i++
			if r, ok := map[byte]byte{'n': '\n', 't': '\t', '"': '"', '$': '$', '\\': '\\'}[text[i]]; ok {
				value.WriteByte(r)
			} else {
				value.WriteString(text[i-1 : i+1])
			}
		default:
			value.WriteByte(c)
		}
	}
	return "", errors.New("a quote is not closed on the same line")
}
