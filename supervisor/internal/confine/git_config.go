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
	gitWord    = regexp.MustCompile(`^[A-Za-z0-9-]*`)
)

// gitLines are the lines of settings, sorted by what may be done with them.
type gitLines struct {
	opaque []string            // each with its section
	plain  map[string][]string // values by section, subsection and name
	odd    map[string]bool     // settings, and sections, that others have written in forms of their own
}

// readGit reads settings. ok is false where it could misunderstand them.
func readGit(text []byte) (lines gitLines, ok bool) {
	lines.plain, lines.odd = map[string][]string{}, map[string]bool{}
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
			lines.odd[strings.ToLower(gitWord.FindString(trimmed[1:]))] = true
		case strict:
			if s := gitSetting.FindStringSubmatch(l); s != nil {
				if name := strings.ToLower(s[1]); slices.Contains(maySet[section], name) || slices.Contains(mayAdd[section], name) {
					key := section + "\x00" + sub + "\x00" + name
					lines.plain[key] = append(lines.plain[key], s[2])
					continue
				}
			}
			lines.odd[section+"\x00"+sub+"\x00"+strings.ToLower(gitWord.FindString(trimmed))] = true
		}
		lines.opaque = append(lines.opaque, section+"\x00"+sub+"\x00"+l)
	}
	return lines, true
}

// refusedIn reports whether a session must not put new settings in the place of old ones, and names the
// first setting because of which; "" if none is known.
func refusedIn(old, now []byte) (setting string, refused bool) {
	before, ok := readGit(old)
	after, fine := readGit(now)
	if !ok || !fine {
		return "", true
	}
	if !slices.Equal(before.opaque, after.opaque) {
		return settingOf(firstOther(before.opaque, after.opaque)), true
	}
	for key, values := range before.plain {
		if part := strings.Split(key, "\x00"); slices.Contains(mayAdd[part[0]], part[2]) && !slices.Equal(values, after.plain[key]) {
			return settingOf(key), true
		}
	}
	for key, values := range after.plain {
		if slices.Equal(values, before.plain[key]) {
			continue
		}
		part := strings.Split(key, "\x00")
		if slices.Contains(mayAdd[part[0]], part[2]) && (before.odd[key] || before.odd[part[0]]) {
			return settingOf(key), true // it is there already, in another form
		}
		for _, value := range values {
			if strings.Contains(value, "::") || strings.HasPrefix(value, "-") { // a transport that is a program, or an option
				return settingOf(key), true
			}
			if part[2] == "fetch" && !gitFetch.MatchString(value) {
				return settingOf(key), true
			}
		}
	}
	return "", false
}

// firstOther returns the first line that only one of two lists has at its place.
func firstOther(a, b []string) string {
	if len(b) > len(a) {
		a, b = b, a
	}
	for i, line := range a {
		if i == len(b) || line != b[i] {
			return line
		}
	}
	return ""
}

// gitName is a part of a setting's name that can be told: a longer one may hold a login.
var gitName = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,64}$`)

// settingOf returns the name of a setting, from its section, subsection and line. It never has a value.
func settingOf(line string) string {
	part := strings.SplitN(line, "\x00", 3)
	if len(part) < 3 {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimSpace(part[2]), "=")
	all := []string{part[0], part[1], strings.ToLower(strings.TrimSpace(name))}
	if all[1] == "" {
		all = slices.Delete(all, 1, 2)
	} else if !gitName.MatchString(all[1]) {
		all[1] = "…"
	}
	if !gitName.MatchString(all[0]) || !gitName.MatchString(all[len(all)-1]) {
		return ""
	}
	return strings.Join(all, ".")
}

// newAddresses returns the addresses to which git would push by new settings and did not by old ones. A
// branch may name a remote in their place.
func newAddresses(old, now []byte) (addresses []string) {
	before, _ := readGit(old)
	after, _ := readGit(now)
	for key, values := range after.plain {
		if slices.Equal(values, before.plain[key]) {
			continue
		}
		switch part := strings.Split(key, "\x00"); part[0] + "." + part[2] {
		case "remote.url":
			addresses = append(addresses, values...)
		case "branch.remote":
			for _, v := range values {
				if remote := "remote\x00" + v + "\x00url"; v != "." && after.plain[remote] == nil && !after.odd[remote] && !after.odd["remote"] {
					addresses = append(addresses, v)
				}
			}
		}
	}
	return addresses
}

// localAddress returns the path of an address of git's on this machine, as git tells it from others.
func localAddress(address string) (file string, ok bool) {
	if file, ok = strings.CutPrefix(address, "file://"); ok {
		return file, true
	}
	colon, slash := strings.IndexByte(address, ':'), strings.IndexByte(address, '/')
	return address, colon < 0 || slash >= 0 && slash < colon
}
