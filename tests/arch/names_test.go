package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// familiar has the words of the standard library that every reader knows. They may be a whole name:
// the receiver or the arguments tell the object.
var familiar = strings.Fields(`
	add append as clone close compare contains copy cancel decode delete dial done encode equal error exit fatal find
	flush format get handle has init is join json keys kill len less list listen lock log main marshal name
	new next open parse path peek print read receive remove render reset rotate run search seek send serve set size sort
	start stop string swap sync unlock unmarshal unwrap values wait write`)

func isFamiliar(name string) bool { return slices.Contains(familiar, strings.ToLower(name)) }

// wordsOf splits a name at its capitals and underscores: resetLater has two words, and so has
// HTTPServer.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	letters := []rune(name)
	for i, r := range letters {
		begins := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if (r == '_' || begins) && len(word) > 0 {
			words, word = append(words, strings.ToLower(string(word))), nil
		}
		if r != '_' {
			word = append(word, r)
		}
	}
	if len(word) > 0 {
		words = append(words, strings.ToLower(string(word)))
	}
	return words
}

// receiverOf returns the name of the type whose method a function is, "" for a plain function.
func receiverOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// functionsOf calls do for each function of the product's source, and names its package.
func (tr *tree) functionsOf(do func(p *pkg, fn *ast.FuncDecl)) {
	for _, p := range tr.pkgs {
		if isTestCode(p.name) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					do(p, fn)
				}
			}
		}
	}
}

// typesOf calls do for each type of the product's source, with its comment.
func (tr *tree) typesOf(do func(p *pkg, spec *ast.TypeSpec, comment *ast.CommentGroup)) {
	for _, p := range tr.pkgs {
		if isTestCode(p.name) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, d := range f.ast.Decls {
				decl, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, s := range decl.Specs {
					if spec, ok := s.(*ast.TypeSpec); ok {
						comment := spec.Doc
						if comment == nil {
							comment = decl.Doc
						}
						do(p, spec, comment)
					}
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	tr := load(t)

	files := make(map[*pkg]int)
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			if !f.test {
				files[p]++
			}
		}
	}

	t.Run("a function of a crowded package has two words", func(t *testing.T) {
		c := check(t, exceptions{})
		tr.functionsOf(func(p *pkg, fn *ast.FuncDecl) {
			name := fn.Name.Name
			if fn.Recv == nil && files[p] > 10 && !fn.Name.IsExported() && len(wordsOf(name)) == 1 && !isFamiliar(name) {
				c.violation(p.name+" "+name, "%s: %s has one word in a package of %d files: add its object", tr.at(fn), name, files[p])
			}
		})
	})

	t.Run("a method of a large type has two words", func(t *testing.T) {
		c := check(t, exceptions{})
		methods := make(map[string]int)
		tr.functionsOf(func(p *pkg, fn *ast.FuncDecl) {
			methods[p.name+" "+receiverOf(fn)]++
		})
		tr.functionsOf(func(p *pkg, fn *ast.FuncDecl) {
			name, of := fn.Name.Name, p.name+" "+receiverOf(fn)
			if fn.Recv != nil && methods[of] > 15 && !fn.Name.IsExported() && len(wordsOf(name)) == 1 && !isFamiliar(name) {
				c.violation(of+"."+name, "%s: %s has one word on a type with %d methods: add its object", tr.at(fn), name, methods[of])
			}
		})
	})

	// A method of an interface has one meaning, on any number of types.
	t.Run("a method's name is on five types at most", func(t *testing.T) {
		c := check(t, exceptions{
			"addEvent":      "an event goes through a chain of readers, each of which adds it to its own result",
			"answerRequest": "each kind of worker and front end answers the same requests",
			"startTurn":     "a turn is started on each layer",
		})
		ofInterface := make(map[string]bool)
		tr.typesOf(func(_ *pkg, spec *ast.TypeSpec, _ *ast.CommentGroup) {
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						ofInterface[name.Name] = true
					}
				}
			}
		})
		types := make(map[string]map[string]bool)
		tr.functionsOf(func(p *pkg, fn *ast.FuncDecl) {
			if name := fn.Name.Name; fn.Recv != nil && !ofInterface[name] && !isFamiliar(name) {
				if types[name] == nil {
					types[name] = make(map[string]bool)
				}
				types[name][p.name+" "+receiverOf(fn)] = true
			}
		})
		standard := []string{"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "Type"}
		for name, on := range types {
			if len(on) > 5 && !slices.Contains(standard, name) {
				c.violation(name, "%s is a method of %d types: use more specific names", name, len(on))
			}
		}
	})

	// The public packages have the same thing on several layers, such as an image or a session.
	t.Run("a type's name is unique", func(t *testing.T) {
		c := check(t, exceptions{
			"Result": "what became of code is a result in Go, Python and TypeScript; that of a conformance check is never used with it",
		})
		layers := []string{"ipc", "timeline", "timeline/internal/event", "session", "supervisor", "client", "client/protocol", "workers", "workers/python", "workers/r"}
		exported, private := make(map[string][]string), make(map[string][]string)
		tr.typesOf(func(p *pkg, spec *ast.TypeSpec, _ *ast.CommentGroup) {
			if spec.Assign.IsValid() {
				return // another name for the same type
			}
			name, subject := spec.Name.Name, p.name
			if slices.Contains(layers, subject) {
				subject = "the layers of a session"
			}
			of := private
			if spec.Name.IsExported() {
				of = exported
			}
			if !slices.Contains(of[name], subject) {
				of[name] = append(of[name], subject)
			}
		})
		for name, in := range exported {
			if len(in) > 1 && !slices.Contains([]string{"Options", "Error", "Conn", "Listener", "Message", "Server"}, name) {
				c.violation(name, "%s is a type in %s: use more specific names", name, strings.Join(in, ", "))
			}
		}
		for name, in := range private {
			if len(in) > 2 {
				c.violation(name, "%s is a type in %s: use more specific names", name, strings.Join(in, ", "))
			}
		}
	})

	t.Run("a test is a subject, and sentences are sub-tests", func(t *testing.T) {
		c := check(t, exceptions{})
		for _, p := range tr.pkgs {
			for _, f := range p.files {
				for _, d := range f.ast.Decls {
					fn, ok := d.(*ast.FuncDecl)
					if !ok || !f.test || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
						continue
					}
					name := fn.Name.Name
					_, detail, _ := strings.Cut(name, "_")
					if len(name) > 40 || len(wordsOf(detail)) > 4 {
						c.violation(p.name+" "+name, "%s: %s: name only the subject, and put the sentence into t.Run", tr.at(fn), name)
					}
				}
			}
		}
	})
}
