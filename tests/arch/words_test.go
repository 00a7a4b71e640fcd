package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// maxSentenceWords bounds a sentence of a comment, or what follows its colon.
const maxSentenceWords = 30

// minTypeWords is the least number of words that can say what a type is.
const minTypeWords = 7

var (
	// A sentence that begins with a clause ("What is sent is …") has to be read twice. Its subject
	// should be a person or a thing. Questions are fine.
	clause = regexp.MustCompile(`(?:^|[.:;] )(?:Who|What|Whoever|Whatever) [a-z][^.?]*(?:[.]|$)`)

	// "There is no home directory" is good English; "there is no language %q" is "unknown
	// language %q".
	isNo      = regexp.MustCompile(`\b(?:is|are|was|were) no [a-z]+`)
	thereIsNo = regexp.MustCompile(`(?i)\bthere (?:is|are|was|were) no ([a-z]+)`)
	unknown   = regexp.MustCompile(`^(?:such|language|setting|method|function|command|argument|type|format)s?$`)

	archaic = regexp.MustCompile(`(?i)\b(?:in vain|for ever|anew|begun|beside|since when|whoever)\b|\bas it is(?:[.,;:)]|$)`)

	emptyDefinition = regexp.MustCompile(`^(?:A|An|The)? ?\w+ (?:is|are) (?:one (?:that|of|such|who|which)|that|those|it|[a-z.]+'s)\b`)
)

// isTranslated reports whether a text has "is no x" where natives say "is not an x".
func isTranslated(text string) string {
	for _, at := range isNo.FindAllStringIndex(text, -1) {
		found := text[at[0]:at[1]]
		if strings.HasSuffix(found, " no longer") || strings.HasSuffix(found, " no more") {
			continue
		}
		before := strings.ToLower(text[max(0, at[0]-len("there ")):at[0]])
		if before == "there " {
			if noun := thereIsNo.FindStringSubmatch(text[at[0]-len("there "):]); noun != nil && !unknown.MatchString(noun[1]) {
				continue
			}
		}
		return found
	}
	return ""
}

// sentencesOf splits the text of a comment. Code, lists and tables in it are not sentences.
func sentencesOf(group *ast.CommentGroup) []string {
	var prose []string
	for line := range strings.SplitSeq(group.Text(), "\n") {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			prose = append(prose, "") // ends a sentence
			continue
		}
		prose = append(prose, line)
	}
	var sentences []string
	for paragraph := range strings.SplitSeq(strings.Join(prose, "\n"), "\n\n") {
		for sentence := range strings.SplitSeq(strings.Join(strings.Fields(paragraph), " "), ". ") {
			sentences = append(sentences, sentence)
		}
	}
	return sentences
}

func TestWords(t *testing.T) {
	t.Parallel()
	tr := load(t)

	t.Run("a sentence begins with its subject", func(t *testing.T) {
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
	})

	t.Run("texts are native English", func(t *testing.T) {
		c := check(t, exceptions{})
		for _, p := range tr.pkgs {
			for _, f := range p.files {
				if f.test || isTestCode(p.name) {
					continue
				}
				ast.Inspect(f.ast, func(n ast.Node) bool {
					text, ok := n.(*ast.BasicLit)
					if !ok || text.Kind != token.STRING {
						return true
					}
					if found := isTranslated(text.Value); found != "" {
						c.violation(p.name+" "+text.Value, "%s: %q: say \"is not a\", or \"unknown\"", tr.at(text), found)
					}
					if found := archaic.FindString(text.Value); found != "" {
						c.violation(p.name+" "+text.Value, "%s: %q is not what natives say", tr.at(text), found)
					}
					return true
				})
				for _, group := range f.ast.Comments {
					text := strings.Join(strings.Fields(group.Text()), " ")
					if found := archaic.FindString(text); found != "" {
						c.violation(tr.at(group), "%s: %q is not what natives say", tr.at(group), found)
					}
				}
			}
		}
	})

	t.Run("a type's comment says what it is", func(t *testing.T) {
		c := check(t, exceptions{})
		tr.typesOf(func(p *pkg, spec *ast.TypeSpec, comment *ast.CommentGroup) {
			fields := 0
			switch x := spec.Type.(type) {
			case *ast.StructType:
				fields = x.Fields.NumFields()
			case *ast.InterfaceType:
				fields = x.Methods.NumFields()
			}
			if fields <= 2 || comment == nil {
				return
			}
			first := sentencesOf(comment)[0]
			switch {
			case emptyDefinition.MatchString(first):
				c.violation(p.name+" "+spec.Name.Name, "%s: %q: say it with a noun that a stranger knows", tr.at(spec), first)
			case len(strings.Fields(first)) < minTypeWords:
				c.violation(p.name+" "+spec.Name.Name, "%s: %q: that is too short to tell what it is", tr.at(spec), first)
			}
		})
	})

	t.Run("a sentence is not too long", func(t *testing.T) {
		c := check(t, exceptions{})
		for _, p := range tr.pkgs {
			for _, f := range p.files {
				if f.test || isTestCode(p.name) {
					continue
				}
				for _, group := range f.ast.Comments {
					for _, sentence := range sentencesOf(group) {
						longest := 0
						for part := range strings.SplitSeq(sentence, ": ") {
							longest = max(longest, len(strings.Fields(part)))
						}
						if longest > maxSentenceWords {
							c.violation(tr.at(group), "%s: a sentence has %d words, more than %d", tr.at(group), longest, maxSentenceWords)
						}
					}
				}
			}
		}
	})
}
