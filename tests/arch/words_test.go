package arch

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// banned are words that hid their meaning, each with clearer ones. The words that remain are
// in docs/architecture.md.
var banned = map[string]string{
	"settle":  "check, sync or wait",
	"settled": "over or ready",
	"settles": "ends",
	"company": "childWatch",
	"pseudo":  "ptyMaster",
	"carrier": "backend",
	"meal":    "input",
	"meals":   "input",
	"deaf":    "stopReading",
	"baton":   "keyboard",
	"batons":  "keyboards",
	"forsake": "abandon",
}

// A name tells a stranger what it stands for.
func TestNames_HaveNoBannedWords(t *testing.T) {
	t.Parallel()
	tr := load(t)
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					for _, word := range wordsOf(id.Name) {
						if clearer, ok := banned[word]; ok {
							t.Errorf("%s: %q in %s hides what it stands for: say %s", tr.at(id), word, id.Name, clearer)
						}
					}
				}
				return true
			})
		}
	}
}

// wordsOf splits a name at its capitals and underscores: settleLater has two words.
func wordsOf(name string) []string {
	var spaced strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			spaced.WriteByte('_')
		}
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.Split(spaced.String(), "_")
}

// A sentence that begins with a clause ("What is sent is …") has to be read twice: its
// subject is a person or a thing. Questions are fine.
func TestComments_BeginWithASubject(t *testing.T) {
	t.Parallel()
	clause := regexp.MustCompile(`(?:^|[.:;] )(?:Who|What|Whoever|Whatever) [a-z][^.?]*(?:[.]|$)`)
	tr := load(t)
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			own := make(map[*ast.CommentGroup]string) // begin with the name of a field
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if field, ok := n.(*ast.Field); ok && field.Doc != nil && len(field.Names) > 0 {
					own[field.Doc] = field.Names[0].Name
				}
				return true
			})
			for _, group := range f.ast.Comments {
				text := strings.TrimPrefix(strings.Join(strings.Fields(group.Text()), " "), own[group])
				if found := clause.FindString(text); found != "" {
					t.Errorf("%s: %q: begin with the person or thing that it is about", tr.at(group), found)
				}
			}
		}
	}
}
