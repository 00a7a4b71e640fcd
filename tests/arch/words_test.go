package arch

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

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
