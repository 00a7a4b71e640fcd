package mcpserver_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/turnstone-repl/turnstone/workers"
)

// splitWords returns the words of a text, in lower case, as a word search sees them.
func splitWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// rankByBM25 ranks texts for a query. Texts without a word of the query are left out.
func rankByBM25(query string, texts map[string]string) (names []string) {
	const k, b = 1.2, 0.75
	total, in := 0, map[string]int{}
	for _, text := range texts {
		all := splitWords(text)
		total += len(all)
		slices.Sort(all)
		for _, w := range slices.Compact(all) {
			in[w]++
		}
	}
	scores := map[string]float64{}
	for name, text := range texts {
		all := splitWords(text)
		for _, w := range splitWords(query) {
			n := 0
			for _, other := range all {
				if other == w {
					n++
				}
			}
			rarity := math.Log(1 + (float64(len(texts)-in[w])+0.5)/(float64(in[w])+0.5))
			length := float64(len(all)) * float64(len(texts)) / float64(total)
			scores[name] += rarity * float64(n) * (k + 1) / (float64(n) + k*(1-b+b*length))
		}
		if scores[name] > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if scores[a] > scores[b] {
			return -1
		}
		return 1
	})
	return names
}

// Clients with many tools hide them, and a model finds them by one search. It must find all tools
// of this server, because repl is of little use without repl_output.
func TestToolSearch(t *testing.T) {
	t.Parallel()
	c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"python": fakeSpec(nil), "r": fakeSpec(nil)}})
	texts := map[string]string{ // tools of other servers
		"browser_open":   "Open a page in the browser and return its text",
		"create_issue":   "Create an issue in a repository",
		"search_mail":    "Search mail by sender, subject or date",
		"query_database": "Run a SQL query on the database and return its rows",
		"read_file":      "Read a file of the project by path",
		"list_channels":  "List the channels of a workspace",
		"get_weather":    "Weather forecast of a city",
		"make_diagram":   "Draw a diagram from a description",
	}
	tools := listTools(c)
	for name, tool := range tools {
		properties, err := json.Marshal(tool.InputSchema.Properties)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = name + " " + tool.Description + " " + string(properties)
	}
	for _, query := range []string{
		"python", "run python code", "R statistics", "interpreter", "jupyter notebook", "data analysis plot",
		"debugger breakpoint", "run code", "repl", "execute code",
	} {
		found := rankByBM25(query, texts)
		found = found[:min(len(found), 8)] // as many as Codex requests
		for name := range tools {
			if !slices.Contains(found, name) {
				t.Errorf("%q does not find %s: it finds %q", query, name, found)
			}
		}
	}
}

// Even if the tools are hidden, the instructions tell a model what they are and when to use them.
// They take at most sixty tokens, at four and a half bytes each.
func TestInstructions(t *testing.T) {
	t.Parallel()
	c := newClient(t, &setup{specs: map[string]func(string) workers.Spec{"python": fakeSpec(nil), "r": fakeSpec(nil)}})
	var r struct{ Instructions string }
	if err := json.Unmarshal(c.initialize("2025-06-18").Result, &r); err != nil {
		t.Fatal(err)
	}
	wantPart(t, r.Instructions, "Python or R interpreter", "Jupyter", "Use it instead of", "variables stay")
	if len(r.Instructions) > 270 {
		t.Errorf("the instructions have %d bytes: %q", len(r.Instructions), r.Instructions)
	}
}
