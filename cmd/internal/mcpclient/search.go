package mcpclient

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/supervisor"
)

const (
	defaultResults    = 10
	maxResults        = 20
	maxSummaryChars   = 100 // characters of a description in a result
	maxSignatureBytes = 300
)

// searchTools returns the signatures of matching tools, best match first. It starts all servers.
func (s *ServerSet) searchTools(ctx context.Context, words string, limit int) ([]string, error) {
	failed := s.connectAll(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.setFunctionsOf(supervisor.CallerOf(ctx).Session); err != nil {
		return nil, err
	}
	type match struct {
		text  string
		score int
	}
	var found []match
	wanted := splitWords(words)
	for _, one := range s.servers {
		one.mu.Lock()
		for _, t := range one.tools {
			if n := matchScore(one.Group, t, wanted); n > 0 || len(wanted) == 0 {
				found = append(found, match{one.toolSignature(t), n})
			}
		}
		if len(one.omitted) > 0 {
			failed = append(failed, one.Group+": skipped tools: "+withoutInvisible(strings.Join(one.omitted[:min(len(one.omitted), maxShownOmitted)], ", ")))
		}
		one.mu.Unlock()
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].score > found[j].score })
	list := []string{}
	for _, m := range found[:min(len(found), limit)] {
		list = append(list, m.text)
	}
	if more := len(found) - limit; more > 0 {
		list = append(list, fmt.Sprintf("and %d more: use more specific words, or a limit up to %d", more, maxResults))
	}
	if len(found) == 0 {
		list = append(list, `no tool matches; search("") lists all`)
	}
	return append(list, failed...), nil
}

// connectAll starts all servers concurrently, and returns a line for each failure.
func (s *ServerSet) connectAll(ctx context.Context) (failed []string) {
	var all sync.WaitGroup
	lines := make([]string, len(s.servers))
	for i, one := range s.servers {
		all.Go(func() {
			if _, err := one.ensureConnected(ctx); err != nil {
				lines[i] = err.Error()
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// splitWords returns the words of a text, in lower case.
func splitWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// matchScore returns how well a tool matches the words. The name counts more than the
// description, and a whole word more than a prefix.
func matchScore(group string, t *mcp.Tool, wanted []string) (n int) {
	name, about := splitWords(group+" "+splitCamelCase(t.Name)), splitWords(t.Description)
	for _, w := range wanted {
		n += max(3*wordMatch(name, w), wordMatch(about, w))
	}
	return n
}

// wordMatch returns 2 if w is one of the words, 1 if it is a prefix of one or the reverse, and 0
// otherwise.
func wordMatch(words []string, w string) (most int) {
	const minPrefix = 3 // letters
	w = stemWord(w)
	for _, word := range words {
		word = stemWord(word)
		switch {
		case word == w:
			return 2
		case len(w) >= minPrefix && strings.HasPrefix(word, w), len(word) >= minPrefix && strings.HasPrefix(w, word):
			most = 1
		}
	}
	return most
}

// stemWord returns an English word without its inflection.
func stemWord(word string) string {
	const minStem = 3 // letters; "thing" stays
	for _, ending := range []struct{ of, instead string }{{"ies", "y"}, {"sses", "ss"}, {"ss", "ss"}, {"ing", ""}, {"ed", ""}, {"es", ""}, {"s", ""}, {"e", ""}} {
		if stem, ok := strings.CutSuffix(word, ending.of); ok && len(stem) >= minStem {
			return stem + ending.instead
		}
	}
	return word
}

// splitCamelCase inserts spaces into a name such as searchIssues.
func splitCamelCase(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// toolSignature describes a tool in one line: "github.search_issues(q: string, page?: integer):
// finds …".
func (s *toolServer) toolSignature(t *mcp.Tool) string {
	schema, _ := t.InputSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	required := stringItems(schema["required"])
	var parameters []string
	for _, name := range append(required, optionalProperties(properties, required)...) {
		p, known := properties[name].(map[string]any)
		if !known {
			continue
		}
		mark := ""
		if !slices.Contains(required, name) {
			mark = "?"
		}
		parameters = append(parameters, name+mark+": "+parameterType(p))
	}
	line := strings.ReplaceAll(withoutInvisible(fmt.Sprintf("%s.%s(%s)", s.Group, codeName(t.Name), strings.Join(parameters, ", "))), "\n", " ")
	if len(line) > maxSignatureBytes {
		line = text.ShortenBytes(line, maxSignatureBytes) + ")"
	}
	about, _, _ := strings.Cut(strings.TrimSpace(withoutInvisible(t.Description)), "\n")
	if about != "" {
		line += ": " + text.Shorten(about, maxSummaryChars)
	}
	return line
}

// withoutInvisible removes invisible characters other than newlines from a server's text.
func withoutInvisible(text string) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && !unicode.IsGraphic(c) {
			return -1
		}
		return c
	}, text)
}

// optionalProperties returns the properties that are not required.
func optionalProperties(properties map[string]any, required []string) (names []string) {
	for name := range properties {
		if !slices.Contains(required, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// parameterType returns the type of a parameter, for a signature.
func parameterType(p map[string]any) string {
	const most = 5
	if choices := stringItems(p["enum"]); len(choices) > 0 && len(choices) <= most {
		return `"` + strings.Join(choices, `"|"`) + `"`
	}
	name, _ := p["type"].(string)
	if items, ok := p["items"].(map[string]any); ok && name == "array" {
		return parameterType(items) + "[]"
	}
	return cmp.Or(name, "any")
}

// codeName returns the name of a tool as an identifier in code.
func codeName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) {
			return c
		}
		return '_'
	}, name)
	if slices.Contains(pythonKeywords(), name) {
		return name + "_"
	}
	if name != "" && unicode.IsDigit(rune(name[0])) {
		return "_" + name
	}
	return name
}
