//go:build unix

package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestPrintShown(t *testing.T) {
	t.Parallel()
	shown := session.Visibility{Home: "/users/ada", MorePaths: 3, WithheldVariables: []string{"GH_PAT", "the login in PIP_INDEX_URL"}, MoreWithheld: 2}
	for i := range maxNamesPerLine + 4 {
		shown.Paths = append(shown.Paths, session.VisiblePath{Path: fmt.Sprintf("/users/ada/d%02d", i), Reason: "document"})
	}
	shown.Paths = append(shown.Paths, session.VisiblePath{Path: "/users/ada/.a b", Reason: "named or allowed"})
	var out strings.Builder
	printShown(&out, shown)
	want := `visible in /users/ada (document): d00, d01, d02, d03, d04, d05, d06, d07, d08, d09, d10, d11 and 4 more
visible in /users/ada (named or allowed): ".a b"
visible in /users/ada: 3 more
withheld variables: GH_PAT, the login in PIP_INDEX_URL and 2 more
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
