package callerstate

import (
	"fmt"
	"strings"
	"testing"
)

func TestTargetFacts_Resolve(t *testing.T) {
	t.Parallel()
	two := []string{"python", "r"}
	for name, row := range map[string]struct {
		facts         targetFacts
		session, lang string
		want          string // name, language and what is known of the call; or part of the error
	}{
		"the main session":                  {targetFacts{defaultLang: "r"}, "", "", "main r"},
		"the default language has it too":   {targetFacts{defaultLang: "r"}, "", "r", "main r"},
		"another language":                  {targetFacts{defaultLang: "r"}, "", "python", "python python"},
		"in any spelling":                   {targetFacts{defaultLang: "r"}, "", " Python", "python python"},
		"an unknown language":               {targetFacts{}, "", "cobol", `unknown language "cobol": use python or r`},
		"a new name":                        {targetFacts{defaultLang: "r"}, "a", "", "a r named"},
		"a known session keeps its own":     {targetFacts{known: map[string]string{"a": "python"}, defaultLang: "r"}, "a", "", "a  named"},
		"and runs no other":                 {targetFacts{known: map[string]string{"a": "python"}}, "a", "r", `session "a" runs python`},
		"an unused name":                    {targetFacts{defaultLang: "r"}, "new", "", "new r named new"},
		"no session and no default":         {targetFacts{}, "", "", "python python inferred"},
		"the only session":                  {targetFacts{known: map[string]string{"a": "r"}}, "", "", "a "},
		"one of several":                    {targetFacts{known: map[string]string{"a": "r", "b": "r"}}, "", "", "session is required; existing sessions: a and b"},
		"a name without a language":         {targetFacts{}, "a", "", "a python named inferred"},
		"a caller that others share":        {targetFacts{shared: true, defaultLang: "r"}, "", "", "session is required, because nothing else"},
		"no remotes, so a slash is a name":  {targetFacts{defaultLang: "r"}, "gpu/a", "", "gpu/a r named"},
		"a session on a remote":             {targetFacts{remotes: []string{"here", "gpu"}, defaultLang: "r"}, "gpu/a", "", "gpu/a r named"},
		"on the default remote":             {targetFacts{remotes: []string{"here", "gpu"}, defaultLang: "r"}, "here/a", "", "a r named"},
		"on a remote that is not allowed":   {targetFacts{remotes: []string{"here", "gpu"}}, "hpc/a", "", `"hpc" is not among the remotes`},
		"a remote without a name":           {targetFacts{remotes: []string{"here", "gpu"}}, "gpu/", "", `lacks a name after the remote: use "gpu/main"`},
		"the main session of a remote":      {targetFacts{remotes: []string{"here", "gpu"}}, "gpu/main", "", "gpu/main python named main"},
		"the backend may know the language": {targetFacts{remotes: []string{"here"}}, "a", "", "a  named"},
		"but not of an unused name":         {targetFacts{remotes: []string{"here"}}, "new", "", "new python named new inferred"},
		"remote sessions are no default":    {targetFacts{remotes: []string{"here", "gpu"}, known: map[string]string{"gpu/a": "r"}}, "", "", "python python inferred"},
	} {
		f := row.facts
		f.languages, f.assumeLanguage = two, func() string { return "python" }
		target, err := f.resolve(row.session, row.lang)
		if err != nil {
			if !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: got the error %v, want %s", name, err, row.want)
			}
			continue
		}
		got := fmt.Sprintf("%s %s", target.name, target.lang)
		for _, fact := range []struct {
			holds bool
			name  string
		}{{target.isNamed, " named"}, {target.isNew, " new"}, {target.isRemoteMain, " main"}, {target.isLangInferred, " inferred"}} {
			if fact.holds {
				got += fact.name
			}
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

func TestTargetFacts_ResolveExisting(t *testing.T) {
	t.Parallel()
	one, two := map[string]string{"a": "r"}, map[string]string{"a": "r", "b": "r"}
	for name, row := range map[string]struct {
		facts         targetFacts
		session, want string // the name, or part of the error
	}{
		"the main session":                {targetFacts{defaultLang: "r", known: map[string]string{"main": "r"}}, "", "main"},
		"the only session":                {targetFacts{known: one}, "", "a"},
		"a known session":                 {targetFacts{known: two}, "b", "b"},
		"one of several":                  {targetFacts{known: two}, "", "session is required; existing sessions: a and b"},
		"an unknown session":              {targetFacts{known: one}, "b", `unknown session "b"; existing sessions: a`},
		"no session at all":               {targetFacts{}, "", "session is required; no sessions yet"},
		"the main one is not there yet":   {targetFacts{defaultLang: "r"}, "", `unknown session "main"; no sessions yet`},
		"a caller that others share":      {targetFacts{shared: true, known: one}, "", "session is required, because nothing else"},
		"the backend may have it":         {targetFacts{remotes: []string{"here"}}, "b", "b"},
		"or its main session":             {targetFacts{remotes: []string{"here"}, defaultLang: "r"}, "", "main"},
		"but not one without a name":      {targetFacts{remotes: []string{"here"}}, "", "session is required"},
		"on the default remote":           {targetFacts{remotes: []string{"here", "gpu"}}, "here/a", "a"},
		"on another remote":               {targetFacts{remotes: []string{"here", "gpu"}}, "gpu/a", "gpu/a"},
		"on a remote that is not allowed": {targetFacts{remotes: []string{"here", "gpu"}}, "hpc/a", `"hpc" is not among the remotes`},
	} {
		switch got, err := row.facts.resolveExisting(row.session); {
		case err != nil && !strings.Contains(err.Error(), row.want):
			t.Errorf("%s: got the error %v, want %s", name, err, row.want)
		case err == nil && got != row.want:
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}
