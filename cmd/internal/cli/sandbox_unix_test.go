//go:build unix

package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestPrintShown_GroupsByReasonAndCountsTheRest(t *testing.T) {
	t.Parallel()
	shown := session.Shown{Home: "/users/ada", More: 3, Withheld: []string{"GH_PAT", "the login in PIP_INDEX_URL"}, MoreWithheld: 2}
	for i := range maxInLine + 4 {
		shown.Places = append(shown.Places, session.ShownPlace{Path: fmt.Sprintf("/users/ada/d%02d", i), Why: "document"})
	}
	shown.Places = append(shown.Places, session.ShownPlace{Path: "/users/ada/.a b", Why: "named or allowed"})
	var out strings.Builder
	printShown(&out, shown)
	want := `shown of /users/ada (document): d00, d01, d02, d03, d04, d05, d06, d07, d08, d09, d10, d11 and 4 more
shown of /users/ada (named or allowed): ".a b"
shown of /users/ada: 3 more
withheld variables: GH_PAT, the login in PIP_INDEX_URL and 2 more
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
