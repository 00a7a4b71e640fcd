package confine

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// A session may change plain settings of a repository: those that name no programs or files, and of a
// repository that it did not make no servers but for a new remote. git writes the whole file anew, so the
// stage compares the old text with the new one. It reads only what git itself writes. Anything else counts
// as one opaque line, which must stay as and where it is.

// settableGit are the settings that a session may add, change and remove, by section and name.
var settableGit = map[string][]string{
	"branch": {"description", "rebase"}, "core": {"autocrlf", "eol"}, "pull": {"ff", "rebase"}, "push": {"autosetupremote", "default"},
	"submodule": {"active"}, "user": {"email", "name"},
}

// addableGit are those that it may add, and not change or remove: others push and fetch by them.
var addableGit = map[string][]string{
	"branch": {"merge", "remote"}, "remote": {"fetch", "url"}, "submodule": {"url"},
}

// ownSettableGit are those that a session may also set in a repository that it made. There it may change all.
var ownSettableGit = map[string][]string{
	"branch": {"autosetupmerge", "autosetuprebase", "gh-merge-base", "pushremote", "sort", "vscode-merge-base"},
	"color":  {"branch", "diff", "interactive", "status", "ui"},
	"commit": {"gpgsign", "status", "verbose"},
	"core": {
		"abbrev", "bare", "bigfilethreshold", "checkstat", "commitgraph", "compression", "filemode", "ignorecase", "logallrefupdates", "longpaths", "multipackindex",
		"precomposeunicode", "preloadindex", "protecthfs", "protectntfs", "quotepath", "repositoryformatversion", "safecrlf", "sharedrepository",
		"sparsecheckout", "sparsecheckoutcone", "splitindex", "symlinks", "trustctime", "untrackedcache", "whitespace", workTreeSetting,
	},
	"diff":        {"algorithm", "colormoved", "ignoresubmodules", "mnemonicprefix", "noprefix", "renamelimit", "renames", "submodule"},
	"extensions":  {"compatobjectformat", "noop", "objectformat", "partialclone", "preciousobjects", "refstorage", "relativeworktrees", "worktreeconfig"},
	"feature":     {"experimental", "manyfiles"},
	"fetch":       {"fsckobjects", "output", "parallel", "prune", "prunetags", "recursesubmodules", "writecommitgraph"},
	"gc":          {"aggressivewindow", "auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire", "reflogexpireunreachable", "writecommitgraph"},
	"http":        {"lowspeedlimit", "lowspeedtime", "postbuffer", "version"},
	"index":       {"skiphash", "sparse", "threads", "version"},
	"init":        {"defaultbranch"},
	"lfs":         {"repositoryformatversion"},
	"log":         {"abbrevcommit", "date", "decorate", "follow", "showsignature"},
	"maintenance": {"auto", "strategy"},
	"merge":       {"autostash", "conflictstyle", "directoryrenames", "ff", "log", "renamelimit", "renames", "stat", "verbosity"},
	"pack":        {"compression", "depth", "threads", "window", "windowmemory", "writereverseindex"},
	"pull":        {"octopus", "twohead"},
	"push":        {"followtags", "recursesubmodules"},
	"rebase":      {"autosquash", "autostash", "missingcommitscheck", "stat", "updaterefs"},
	"receive":     {"advertisepushoptions", "autogc", "denycurrentbranch", "denydeletecurrent", "denydeletes", "denynonfastforwards", "fsckobjects", "shallowupdate", "unpacklimit"},
	"remote":      {"followremotehead", "gh-resolved", "mirror", "partialclonefilter", "promisor", "prune", "prunetags", "push", "pushdefault", "pushurl", "skipdefaultupdate", "skipfetchall", "tagopt"},
	"rerere":      {"autoupdate", "enabled"},
	"status":      {"branch", "renames", "short", "showstash", "showuntrackedfiles", "submodulesummary"},
	"submodule":   {"branch", "fetchrecursesubmodules", "ignore", "recurse", "shallow", "update"},
	"tag":         {"gpgsign", "sort"},
	"transfer":    {"advertiserefs", "fsckobjects", "hiderefs", "unpacklimit"},
	"uploadpack":  {"allowanysha1inwant", "allowfilter", "allowreachablesha1inwant", "allowrefinwant", "allowtipsha1inwant", "hiderefs"},
}

// workTreeSetting is the name of the setting of the work tree whose repository is elsewhere.
const workTreeSetting = "worktree"

var (
	gitSection = regexp.MustCompile(`^\[([A-Za-z0-9-]+)(?: "([^"\\[:cntrl:]]*)")?\]$`)
	gitSetting = regexp.MustCompile(`^\t([A-Za-z][A-Za-z0-9-]*) = ([^"\\#;[:cntrl:]]*)$`)
	gitFetch   = regexp.MustCompile(`^\+?refs/(heads|tags)/[^:]*:refs/(remotes|tags)/[^:]*$`)
	gitUpdate  = regexp.MustCompile(`^(checkout|rebase|merge|none)$`)
	gitWord    = regexp.MustCompile(`^[A-Za-z0-9-]*`)
)

// gitLines are the lines of settings, sorted by what may be done with them.
type gitLines struct {
	opaque   []string            // each with its section
	plain    map[string][]string // values by section, subsection and name
	unparsed map[string]bool     // settings, and sections, that others have written in forms of their own
}

// A gitOwner says what a session may do with settings by whose repository they are of.
type gitOwner struct {
	isOwn        bool                   // the session made it
	isAddedTree  bool                   // it is that of a work tree in a repository of somebody else's
	isWorkTreeOf func(tree string) bool // reports whether a work tree is that of the repository
}

// remoteSections are the sections that say where a push goes. Settings of one work tree come after those of the
// repository, and add to its remotes or hide them.
var remoteSections = []string{"branch", "remote", "submodule"}

// isSettable reports whether a session may set something at all.
func (o gitOwner) isSettable(section, name string) bool {
	if o.isAddedTree && slices.Contains(remoteSections, section) {
		return false
	}
	return slices.Contains(settableGit[section], name) || slices.Contains(addableGit[section], name) || o.isOwn && slices.Contains(ownSettableGit[section], name)
}

// isAddOnly reports whether what a setting says stays once it is there.
func (o gitOwner) isAddOnly(section, name string) bool {
	return !o.isOwn && slices.Contains(addableGit[section], name)
}

// isAllowedValue reports whether a setting may have a value.
func (o gitOwner) isAllowedValue(section, name, value string) bool {
	switch value = strings.TrimSpace(value); { // as git does
	case strings.Contains(value, "::"), strings.HasPrefix(value, "-"): // a transport that is a program, or an option
		return false
	case section == "submodule" && name == "update":
		return gitUpdate.MatchString(value) // else a program
	case section == "core" && name == workTreeSetting:
		return o.isWorkTreeOf(value) // a checkout writes in it
	case name == "fetch":
		return o.isOwn || gitFetch.MatchString(value)
	}
	return true
}

// parseGitConfig reads settings. ok is false where it could misunderstand them.
func parseGitConfig(text []byte, o gitOwner) (lines gitLines, ok bool) {
	lines.plain, lines.unparsed = map[string][]string{}, map[string]bool{}
	section, sub, strict := "", "", false
	for line := range bytes.Lines(text) {
		l := strings.TrimSuffix(string(line), "\n")
		if strings.HasSuffix(strings.TrimRight(l, "\r"), `\`) {
			return lines, false // it goes on in the next line
		}
		switch trimmed := strings.Trim(l, " \t\r"); {
		case trimmed == "", o.isOwn && strings.ContainsAny(trimmed[:1], "#;"):
			continue
		case trimmed[0] == '[':
			head := gitSection.FindStringSubmatch(l)
			if strict = head != nil; strict {
				section, sub = strings.ToLower(head[1]), head[2]
				continue
			}
			section, sub = trimmed, ""
			lines.unparsed[strings.ToLower(gitWord.FindString(trimmed[1:]))] = true
		case strict:
			if s := gitSetting.FindStringSubmatch(l); s != nil {
				if name := strings.ToLower(s[1]); o.isSettable(section, name) {
					key := section + "\x00" + sub + "\x00" + name
					lines.plain[key] = append(lines.plain[key], s[2])
					continue
				}
			}
			lines.unparsed[section+"\x00"+sub+"\x00"+strings.ToLower(gitWord.FindString(trimmed))] = true
		}
		lines.opaque = append(lines.opaque, section+"\x00"+sub+"\x00"+l)
	}
	return lines, true
}

// refusedSetting reports whether a session must not put new settings in the place of old ones, and names the
// first setting because of which; "" if none is known.
func refusedSetting(old, now []byte, o gitOwner) (setting string, refused bool) {
	before, ok := parseGitConfig(old, o)
	after, fine := parseGitConfig(now, o)
	if !ok || !fine {
		return "", true
	}
	if !slices.Equal(before.opaque, after.opaque) {
		return settingName(firstDifference(before.opaque, after.opaque)), true
	}
	for key, values := range before.plain {
		if part := strings.Split(key, "\x00"); o.isAddOnly(part[0], part[2]) && !slices.Equal(values, after.plain[key]) {
			return settingName(key), true
		}
	}
	for key, values := range after.plain {
		if slices.Equal(values, before.plain[key]) {
			continue
		}
		part := strings.Split(key, "\x00")
		if o.isAddOnly(part[0], part[2]) && (before.unparsed[key] || before.unparsed[part[0]]) {
			return settingName(key), true // it is there already, in another form
		}
		if slices.ContainsFunc(values, func(value string) bool { return !o.isAllowedValue(part[0], part[2], value) }) {
			return settingName(key), true
		}
	}
	return "", false
}

// firstDifference returns the first line that only one of two lists has at its place.
func firstDifference(a, b []string) string {
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

// reportableGitName is a part of a setting's name that can be told: a longer one may hold a login.
var reportableGitName = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,64}$`)

// settingName returns the name of a setting, from its section, subsection and line. It never has a value.
func settingName(line string) string {
	part := strings.SplitN(line, "\x00", 3)
	if len(part) < 3 {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimSpace(part[2]), "=")
	all := []string{part[0], part[1], strings.ToLower(strings.TrimSpace(name))}
	if all[1] == "" {
		all = slices.Delete(all, 1, 2)
	} else if !reportableGitName.MatchString(all[1]) {
		all[1] = "…"
	}
	if !reportableGitName.MatchString(all[0]) || !reportableGitName.MatchString(all[len(all)-1]) {
		return ""
	}
	return strings.Join(all, ".")
}
