package supervisor

import (
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// privateDirs lists the directories that the session has separately in its sandbox, such as /tmp.
type privateDirs struct {
	dirs          []string
	home          string   // the home directory built for the session; also in dirs
	exceptions    []string // paths inside dirs that are the machine's
	missingPath   string   // the directory in which the turn missed a path, or the path itself if in home
	reportedPaths []string // paths that were reported, once per session

	checkShow func(path string) error // returns why no user can show the session a path
}

// noteMissingPath notes that a message names a file that may exist in the machine's directory of
// the same name. It never checks whether the file exists, because that would reveal it to the
// session.
func (p *privateDirs) noteMissingPath(message string) {
	if p.missingPath != "" {
		return
	}
	for _, dir := range p.dirs {
		if slices.Contains(p.reportedPaths, dir) {
			continue
		}
		for path := range pathsBelow(message, dir) {
			own := strings.HasPrefix(filepath.Base(path), "Rtmp") || slices.ContainsFunc(p.exceptions, func(d string) bool { return d != "/" && paths.Contains(d, path) || paths.Contains(path, d) }) // a session in / has its own /tmp, too
			name := filepath.Base(path)
			if own || slices.Contains(p.reportedPaths, path) || text.QuoteName(name) != name { // code may have forged the message
				continue
			}
			if p.missingPath = dir; dir == p.home {
				p.missingPath = path
			}
			return
		}
	}
}

// pathsBelow yields the paths of the direct children of a directory that a text names.
func pathsBelow(text, dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			before, behind, found := strings.Cut(text, dir+"/")
			if !found {
				return
			}
			last, _ := utf8.DecodeLastRuneInString(before)
			name := behind[:max(0, strings.IndexFunc(behind+" ", func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("/'\"`’”»:,;)]}", r) }))]
			if text = behind; name != "" && !isNameRune(last) && last != '/' && !yield(dir+"/"+name) {
				return
			}
		}
	}
}
