package foldedname

import (
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

// FoldPath maps a path to a form that is equal for all names which some filesystem treats as the
// same. Some filesystems ignore case, and take the long s for an s. Others ignore invisible
// characters, or dots and spaces at the end of a name.
func FoldPath(file string) string {
	if isPlainText(file) {
		return strings.ToLower(file)
	}
	parts := strings.Split(file, "/")
	for i, name := range parts {
		name = norm.NFKD.String(cases.Fold().String(norm.NFKD.String(strings.Map(dropInvisible, name))))
		if short := strings.TrimRight(name, ". "); short != "" {
			name = short
		}
		parts[i] = name
	}
	return strings.Join(parts, "/")
}

// isPlainText reports whether a path can differ from its folded form only in case.
func isPlainText(file string) bool {
	for i := range len(file) {
		c := file[i]
		if c >= utf8.RuneSelf || (c == '.' || c == ' ') && (i+1 == len(file) || file[i+1] == '/') {
			return false
		}
	}
	return true
}

// dropInvisible returns -1 for invisible characters.
func dropInvisible(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// shortNamePattern matches the second names that FAT and NTFS give to files, such as GIT~1 for
// .git.
var shortNamePattern = text.Pattern(`^[^.~]{1,6}~[0-9]{1,6}(\.[^.]{0,3})?$`)

// IsShortName reports whether a name may be a second name that a filesystem gave to a file. Such a
// name exists, but the directory does not list it.
func IsShortName(dir, name string) bool {
	if !strings.Contains(name, "~") || !shortNamePattern().MatchString(name) || filestate.PresenceOf(dir+"/"+name) == filestate.Missing {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
}
