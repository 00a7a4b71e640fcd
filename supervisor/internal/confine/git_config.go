package confine

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// A session may change plain settings of a repository that it did not make: those that name no programs,
// files or servers but for a new remote. git writes the whole file anew, so the stage compares the old
// text with the new one. It reads only what git itself writes. Anything else counts as one opaque line,
// which must stay as and where it is.

// maySet are the settings that a session may add, change and remove, by section and name.
var maySet = map[string][]string{
	"branch": {"description", "rebase"}, "core": {"autocrlf", "eol"}, "pull": {"ff", "rebase"}, "push": {"autosetupremote", "default"},
	"submodule": {"active"}, "user": {"email", "name"},
}

// mayAdd are those that it may add, and not change or remove: others push and fetch by them.
var mayAdd = map[string][]string{
	"branch": {"merge", "remote"}, "remote": {"fetch", "url"}, "submodule": {"url"},
}

var (
	gitSection = regexp.MustCompile(`^\[([A-Za-z0-9-]+)(?: "([^"\\[:cntrl:]]*)")?\]$`)
	gitSetting = regexp.MustCompile(`^\t([A-Za-z][A-Za-z0-9-]*) = ([^"\\#;[:cntrl:]]*)$`)
	gitFetch   = regexp.MustCompile(`^\+?refs/(heads|tags)/[^:]*:refs/(remotes|tags)/[^:]*$`)
)

// gitLines are the lines of settings, sorted by what may be done with them.
type gitLines struct {
	opaque []string            // each with its section
	plain  map[string][]string // values by section, subsection and name
}

// readGit reads settings. ok is false where it could misunderstand them.
func readGit(text []byte) (lines gitLines, ok bool) {
	lines.plain = map[string][]string{}
	section, sub, strict := "", "", false
	for line := range bytes.Lines(text) {
		l := strings.TrimSuffix(string(line), "\n")
		if strings.HasSuffix(strings.TrimRight(l, "\r"), `\`) {
			return lines, false // it goes on in the next line
		}
		switch trimmed := strings.Trim(l, " \t\r"); {
		case trimmed == "":
			continue
		case trimmed[0] == '[':
			head := gitSection.FindStringSubmatch(l)
			if strict = head != nil; strict {
				section, sub = strings.ToLower(head[1]), head[2]
				continue
			}
			section, sub = trimmed, ""
		case strict:
			if s := gitSetting.FindStringSubmatch(l); s != nil {
				if name := strings.ToLower(s[1]); slices.Contains(maySet[section], name) || slices.Contains(mayAdd[section], name) {
					key := section + "\x00" + sub + "\x00" + name
					lines.plain[key] = append(lines.plain[key], s[2])
					continue
				}
			}
		}
		lines.opaque = append(lines.opaque, section+"\x00"+sub+"\x00"+l)
	}
	return lines, true
}

// mayBecome reports whether a session may put new settings in the place of old ones.
func mayBecome(old, now []byte) bool {
	before, ok := readGit(old)
	after, fine := readGit(now)
	if !ok || !fine || !slices.Equal(before.opaque, after.opaque) {
		return false
	}
	for key, values := range before.plain {
		if part := strings.Split(key, "\x00"); slices.Contains(mayAdd[part[0]], part[2]) && !slices.Equal(values, after.plain[key]) {
			return false
		}
	}
	for key, values := range after.plain {
		if slices.Equal(values, before.plain[key]) {
			continue
		}
		part := strings.Split(key, "\x00")
		for _, value := range values {
			if strings.Contains(value, "::") || strings.HasPrefix(value, "-") { // a transport that is a program, or an option
				return false
			}
			if part[2] == "fetch" && !gitFetch.MatchString(value) {
				return false
			}
		}
	}
	return true
}
