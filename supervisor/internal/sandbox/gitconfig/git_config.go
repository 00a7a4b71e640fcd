package gitconfig

import (
	"bytes"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A session may change plain git settings of a repository: settings that name no programs or files.
// In a repository that it did not make, it may add a remote, but not change the server of an
// existing one. Git rewrites the whole file, so the monitor compares the old text with the new one.
// It parses only what git itself writes. Any other line is opaque and must stay unchanged and in
// its place.

// settableGit are the settings that a session may add, change and remove, by section and name.
var settableGit = map[string][]string{
	"branch": {"description", "rebase"}, "core": {"autocrlf", "eol"}, "pull": {"ff", "rebase"}, "push": {"autosetupremote", "default"},
	"submodule": {"active"}, "user": {"email", "name"},
}

// addableGit are the settings that a session may add, but not change or remove, because others push
// and fetch by them.
var addableGit = map[string][]string{
	"branch": {"merge", "remote"}, "remote": {"fetch", "url"}, "submodule": {"url"},
}

// ownSettableGit are the settings that a session may also set in a repository that it created.
// There it may change all of them.
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

// workTreeSetting is the setting that names the work tree of a repository elsewhere.
const workTreeSetting = "worktree"

var (
	gitSection = text.Pattern(`^\[([A-Za-z0-9-]+)(?: "([^"\\[:cntrl:]]*)")?\]$`)
	gitSetting = text.Pattern(`^\t([A-Za-z][A-Za-z0-9-]*) = ([^"\\#;[:cntrl:]]*)$`)
	gitFetch   = text.Pattern(`^\+?refs/(heads|tags)/[^:]*:refs/(remotes|tags)/[^:]*$`)
	gitUpdate  = text.Pattern(`^(checkout|rebase|merge|none)$`)
	// WordPattern matches the word at the start of a text, such as the section in "core.pager".
	WordPattern = text.Pattern(`^[A-Za-z0-9-]*`)
)

// gitLines are the lines of a git config file, sorted by what a session may do with them.
type gitLines struct {
	opaque   []string            // each prefixed with its section
	plain    map[string][]string // values by section, subsection and name
	unparsed map[string]bool     // settings and sections in a form that git does not write
}

// A RepoOwner describes whose repository a config file belongs to, which decides what a session may
// set in it.
type RepoOwner struct {
	IsOwn        bool                   // the session made it
	IsAddedTree  bool                   // the config file belongs to an added work tree in a repository of another owner
	IsWorkTreeOf func(tree string) bool // reports whether a path is the work tree of the repository
}

// remoteSections are the sections that decide where a push goes. Settings of one work tree are read
// after those of the repository, and add to its remotes or override them.
var remoteSections = []string{"branch", "remote", "submodule"}

// isSettable reports whether a session may set a setting to some value.
func (o RepoOwner) isSettable(section, name string) bool {
	if o.IsAddedTree && slices.Contains(remoteSections, section) {
		return false
	}
	return slices.Contains(settableGit[section], name) || slices.Contains(addableGit[section], name) || o.IsOwn && slices.Contains(ownSettableGit[section], name)
}

// isAddOnly reports whether a setting must not change once it exists.
func (o RepoOwner) isAddOnly(section, name string) bool {
	return !o.IsOwn && slices.Contains(addableGit[section], name)
}

// isAllowedValue reports whether a setting may have a value.
func (o RepoOwner) isAllowedValue(section, name, value string) bool {
	switch value = strings.TrimSpace(value); { // as git does
	case strings.Contains(value, "::"), strings.HasPrefix(value, "-"): // a transport that is a program, or an option
		return false
	case section == "submodule" && name == "update":
		return gitUpdate().MatchString(value) // else a program
	case section == "core" && name == workTreeSetting:
		return o.IsWorkTreeOf(value) // a checkout writes in it
	case name == "fetch":
		return o.IsOwn || gitFetch().MatchString(value)
	}
	return true
}

// parseGitConfig parses a git config file. ok is false if the text could be misunderstood.
func parseGitConfig(text []byte, o RepoOwner) (lines gitLines, ok bool) {
	lines.plain, lines.unparsed = map[string][]string{}, map[string]bool{}
	section, sub, strict := "", "", false
	for line := range bytes.Lines(text) {
		l := strings.TrimSuffix(string(line), "\n")
		if strings.HasSuffix(strings.TrimRight(l, "\r"), `\`) {
			return lines, false // it continues in the next line
		}
		switch trimmed := strings.Trim(l, " \t\r"); {
		case trimmed == "", o.IsOwn && strings.ContainsAny(trimmed[:1], "#;"):
			continue
		case trimmed[0] == '[':
			head := gitSection().FindStringSubmatch(l)
			if strict = head != nil; strict {
				section, sub = strings.ToLower(head[1]), head[2]
				continue
			}
			section, sub = trimmed, ""
			lines.unparsed[strings.ToLower(WordPattern().FindString(trimmed[1:]))] = true
		case strict:
			if s := gitSetting().FindStringSubmatch(l); s != nil {
				if name := strings.ToLower(s[1]); o.isSettable(section, name) {
					key := section + "\x00" + sub + "\x00" + name
					lines.plain[key] = append(lines.plain[key], s[2])
					continue
				}
			}
			lines.unparsed[section+"\x00"+sub+"\x00"+strings.ToLower(WordPattern().FindString(trimmed))] = true
		}
		lines.opaque = append(lines.opaque, section+"\x00"+sub+"\x00"+l)
	}
	return lines, true
}

// RefusedSetting reports whether a session must not replace the old settings by the new ones. It
// names the first setting that is the reason, or "" if it is unknown.
func RefusedSetting(old, now []byte, o RepoOwner) (setting string, refused bool) {
	before, ok := parseGitConfig(old, o)
	after, ok2 := parseGitConfig(now, o)
	if !ok || !ok2 {
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
			return settingName(key), true // it exists already, in another form
		}
		if slices.ContainsFunc(values, func(value string) bool { return !o.isAllowedValue(part[0], part[2], value) }) {
			return settingName(key), true
		}
	}
	return "", false
}

// firstDifference returns the first line at which two lists differ.
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

// reportableGitName matches a part of a setting's name that may be reported: a longer one may hold
// a login.
var reportableGitName = text.Pattern(`^[A-Za-z0-9._/-]{1,64}$`)

// settingName returns the name of a setting, from its section, subsection and line. It never
// returns the value.
func settingName(line string) string {
	part := strings.SplitN(line, "\x00", 3)
	if len(part) < 3 {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimSpace(part[2]), "=")
	all := []string{part[0], part[1], strings.ToLower(strings.TrimSpace(name))}
	if all[1] == "" {
		all = slices.Delete(all, 1, 2)
	} else if !reportableGitName().MatchString(all[1]) {
		all[1] = "…"
	}
	if !reportableGitName().MatchString(all[0]) || !reportableGitName().MatchString(all[len(all)-1]) {
		return ""
	}
	return strings.Join(all, ".")
}
