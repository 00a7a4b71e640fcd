package redact

import (
	"bytes"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/workers"
)

// A login is recognized by its name, by its own form, or by its position in an address.

// assignmentPattern matches a name and its assignment, in settings, scripts, headers and code.
var assignmentPattern = text.Pattern("([A-Za-z_][\\w.-]*)[\"'`]?\\s*(?:=|:|<<?-)\\s*")

// hasSecret reports whether a text has a value with the name or form of a secret. Forms that can
// begin anywhere are searched once in the whole text.
func hasSecret(text string) bool {
	for _, at := range assignmentPattern().FindAllStringSubmatchIndex(text, -1) {
		value := strings.Trim(text[at[1]:], " \t\r\n\"'`;")
		if value != "" && isSecret(text[at[2]:at[3]], value[:min(len(value), secretPrefixLen)]) {
			return true
		}
	}
	return isSecret("", strings.TrimSpace(text)) || slices.ContainsFunc(strings.FieldsFunc(text, isWordBreak), func(word string) bool {
		return len(word) > secretPrefixLen/2 && isSecret("", word)
	})
}

// secretPrefixLen is the length of the prefix of a value that the prefix forms need. A word that is
// a key by its letters alone is longer than half of it.
const secretPrefixLen = 32

func isWordBreak(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`,;=${}[]()<>", r) }

// isSecretName reports whether a variable, setting or option has the name of a secret.
func isSecretName(name string) bool { return isSecret(name, "") }

func isSecret(name, value string) bool {
	name = camelCaseBreak().ReplaceAllString(nameSeparators.Replace(name), "${1}_$2")
	return len(workers.SecretVariables([]string{name + "=" + value})) > 0
}

var (
	nameSeparators = strings.NewReplacer(".", "_", "-", "_")
	camelCaseBreak = text.Pattern(`([a-z])([A-Z])`)
)

// condaToken matches a conda token in the path of an address.
var condaToken = text.Pattern(`(/t/)[^/\s"']+(/)`)

// WithoutLogins removes the logins from all URLs in a text, and leaves the rest unchanged.
func WithoutLogins(text []byte) []byte {
	var plain []byte
	for line := range bytes.Lines(text) {
		at := 0
		for {
			scheme := bytes.Index(line[at:], []byte("://"))
			if scheme < 0 {
				break
			}
			host := at + scheme + len("://")
			plain = append(plain, line[at:host]...)
			at = host + lengthOfLogin(line[host:], quoteAround(line[:host]))
		}
		plain = append(plain, line[at:]...)
	}
	return condaToken().ReplaceAll(plain, []byte("$1$2"))
}

// schemeOf matches the scheme of a URL and a quote before it.
var schemeOf = text.Pattern(`(["'])[\w+.-]*://$`)

// quoteAround returns the quote that ends a URL, given the text before its host; 0 for none.
// Apostrophes do not count, because they occur in any text.
func quoteAround(before []byte) byte {
	if quote := schemeOf().FindSubmatch(before); quote != nil {
		return quote[1][0]
	}
	if bytes.Count(before, []byte(`"`))%2 == 1 {
		return '"'
	}
	return 0
}

// lengthOfLogin returns the length of the login at the start of the text after a scheme. A login
// may contain anything but a slash.
func lengthOfLogin(rest []byte, quote byte) int {
	if end := bytes.IndexAny(rest, "/\r\n"); end >= 0 {
		rest = rest[:end]
	}
	if end := bytes.IndexByte(rest, quote); quote != 0 && end >= 0 {
		rest = rest[:end]
	}
	word := rest
	if end := bytes.IndexAny(rest, " \t"); end >= 0 {
		word = rest[:end]
	}
	length := bytes.LastIndexByte(word, '@') + 1
	if length == 0 && spacedPassword().Match(rest) {
		length = bytes.LastIndexByte(rest, '@') + 1
	}
	return length
}

// spacedPassword matches a password with a space in it; digits alone would be a port.
var spacedPassword = text.Pattern(`^[^\s:@]*:[^\s@]*[^\d\s@][^\s@]*\s[^@]*@`)

// schemelessLogin matches a login before a host without a scheme, as in proxy settings.
var schemelessLogin = text.Pattern("(^|[\\s\"'=])[^\\s\"'`=:/@${(]+:[^\\s/:]\\S*@")

// withoutAnyLogin removes logins from URLs and from addresses without a scheme.
func withoutAnyLogin(text []byte) []byte {
	return schemelessLogin().ReplaceAll(WithoutLogins(text), []byte("$1"))
}

// redactLines removes the lines for which plain returns nil, and the lines in which such a value
// continues.
func redactLines(text []byte, plain func(line []byte) []byte, continues func(value, next string) bool) []byte {
	var result []byte
	secret := ""
	for line := range bytes.Lines(text) {
		if secret != "" && continues(secret, string(line)) {
			secret += string(line)
			continue
		}
		if redacted := plain(line); redacted == nil {
			secret = string(line)
		} else {
			result, secret = append(result, redacted...), ""
		}
	}
	return result
}

// dropSecretLine returns a line, or nil if it contains a secret.
func dropSecretLine(line []byte) []byte {
	if hasSecret(string(line)) {
		return nil
	}
	return line
}

// Variables removes the secret variables from an R environ file, which has one variable per
// line.
func Variables(text []byte) []byte {
	return redactLines(text, func(line []byte) []byte { return dropSecretLine(withoutAnyLogin(line)) }, func(_, next string) bool {
		return strings.TrimSpace(next) != "" && !variableLine().MatchString(next)
	})
}

var variableLine = text.Pattern(`^\s*(#|(export\s+)?[A-Za-z_.][\w.]*\s*=\s*[^\s=])`)

// Script removes the lines of a shell script that contain a secret, up to the end of a quoted
// text.
func Script(text []byte) []byte {
	plain := func(line []byte) []byte { return dropSecretLine(WithoutLogins(line)) }
	return redactLines(text, plain, func(value, _ string) bool { return openQuotePattern().MatchString(value) })
}

// openQuotePattern matches lines of a shell script that continue in the next line.
var openQuotePattern = text.Pattern(`^(?:[^"'\\]|\\[^\n]|"(?:[^"\\]|\\(?s:.))*"|'[^']*')*(?:\\\n|"(?:[^"\\]|\\(?s:.))*|'[^']*)$`)

// Indexes removes the lines of settings that contain a secret, and the tokens in the paths of
// addresses.
func Indexes(text []byte) []byte {
	return redactLines(text, func(line []byte) []byte { return redactSetting(withoutTokens(line)) }, isContinued)
}

// redactSetting removes the logins from a line of settings. It returns nil for a line that is only
// the name of a secret, whose value is in the next lines.
func redactSetting(line []byte) []byte {
	if name := nameOnlyPattern().FindSubmatch(line); name != nil && isSecretName(string(name[1])) {
		return nil
	}
	return dropSecretLine(withoutAnyLogin(line))
}

var nameOnlyPattern = text.Pattern(`^[\s-]*["']?([\w.-]+)["']?\s*[=:]\s*["'|>+-]*\s*$`)

// isContinued reports whether a value continues in the next line. It may continue by indentation,
// after a backslash, in brackets, in triple quotes, or up to the end of a key.
func isContinued(value, next string) bool {
	first, _, _ := strings.Cut(value, "\n")
	return strings.TrimSpace(next) != "" && indentWidth(next) > indentWidth(first) || strings.HasSuffix(strings.TrimRight(value, "\r\n"), `\`) ||
		strings.Count(value, "[")+strings.Count(value, "{") > strings.Count(value, "]")+strings.Count(value, "}") ||
		strings.Count(value, `"""`)%2 == 1 || strings.Count(value, `'''`)%2 == 1 ||
		strings.Contains(value, "-----BEGIN") && !strings.Contains(value, "-----END")
}

func indentWidth(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// Registries removes the lines of npm settings that hold logins.
func Registries(text []byte) []byte {
	var result []byte
	for line := range bytes.Lines(text) {
		if key, _, _ := bytes.Cut(line, []byte("=")); !registryLogin().Match(key) {
			result = append(result, line...)
		}
	}
	return redactLines(result, redactSetting, isContinued)
}

var registryLogin = text.Pattern(`(?i)_auth|token|password|username|email|_?otp\b|^\s*(cert|key)\b`)

// Repository removes the lines of a git config file that contain a secret, and the headers
// that git sends.
func Repository(text []byte) []byte {
	return redactLines(text, func(line []byte) []byte {
		switch {
		case gitHeader().Match(line):
			return nil
		case madeByClone().Match(line): // there may be hundreds of them
			return line
		}
		return redactSetting(line)
	}, isContinued)
}

var (
	gitHeader   = text.Pattern(`(?i)^\s*extraheader\s*=`)
	madeByClone = text.Pattern(`^(?:\[(?:core|remote "origin")\]|\s+(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|fetch)\s*=)`)
)

var (
	// addressPath matches the path of an address and the part before it.
	addressPath   = text.Pattern(`(://[^/\s"']*)((?:/[^/\s"'?#,\]}]*)+)`)
	tokenSegment  = text.Pattern(`((?:^|[/\s"'])t/)[^/\s"',]+`)
	longWord      = text.Pattern(`[A-Za-z0-9]{16,}`)
	letterPattern = text.Pattern(`[A-Za-z]`)
)

// withoutTokens removes what looks like a token from the paths of addresses.
func withoutTokens(line []byte) []byte {
	line = tokenSegment().ReplaceAll(line, []byte("$1"))
	return addressPath().ReplaceAllFunc(line, func(address []byte) []byte {
		found := addressPath().FindSubmatch(address)
		parts := strings.Split(string(found[2]), "/")
		for i, part := range parts {
			if hasSecret(part) || !strings.Contains(part, ".") && slices.ContainsFunc(longWord().FindAllString(part, -1), isMixed) {
				parts[i] = ""
			}
		}
		return append(found[1], strings.Join(parts, "/")...)
	})
}

// isMixed reports whether a long word mixes letters and digits as no name does: in both cases, or
// with digits in more than one position.
func isMixed(word string) bool {
	digits := digitRun().FindAllString(word, 2)
	bothCases := word != strings.ToLower(word) && word != strings.ToUpper(word)
	return letterPattern().MatchString(word) && (len(digits) == 2 || len(digits) == 1 && bothCases)
}

var digitRun = text.Pattern(`[0-9]+`)
