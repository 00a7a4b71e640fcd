package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each small mechanism that every package needs has one home. So an absent path, a relative variable
// or a failed write has the same effect in all of them. Tests may use any, to check the homes.
func TestSmallMechanisms(t *testing.T) {
	t.Parallel()
	tr := load(t)
	c := check(t, exceptions{
		"cmd/internal/jupyter/kernelspec: variable": "Jupyter takes a relative XDG_DATA_HOME, too, and looks for kernels below it",
		"otelturnstone: pattern":                    "it is not part of the program",
	})
	homes := map[string]string{"links": "internal/paths", "replacement": "internal/atomicfile", "variable": "internal/userdirs", "pattern": "internal/text"}
	advice := map[string]string{
		"links":       "filepath.EvalSymlinks: choose paths.Real, RealOrSame or RealOrEmpty by what an absent path means",
		"replacement": "a temporary file that is renamed: use atomicfile.Write or Create",
		"variable":    "an XDG variable is read: use userdirs",
		"pattern":     "every start compiles a regular expression: use text.Pattern",
	}
	used := make(map[string]bool)
	for _, p := range tr.pkgs {
		if isTestCode(p.name) || p.name == "release" { // release is a separate module
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for kind, found := range ownMechanisms(f.ast) {
				if p.name == homes[kind] {
					used[kind] = true
					continue
				}
				for _, n := range found {
					c.violation(p.name+": "+kind, "%s: %s", tr.at(n), advice[kind])
				}
			}
		}
	}
	for _, kind := range []string{"links", "variable"} { // atomicfile opens its temporary files itself
		if !used[kind] {
			t.Errorf("%s, the home of a mechanism, no longer contains it: the rule is outdated", homes[kind])
		}
	}
}

// xdgVariable matches a whole name, but not an entry "NAME=value".
var xdgVariable = regexp.MustCompile(`^XDG_[A-Z_]+$`)

// ownMechanisms returns where a file implements a mechanism that has a home elsewhere, by kind: it
// resolves "links", writes the "replacement" of a file, reads a "variable" of XDG, or compiles a
// "pattern" for a package variable.
func ownMechanisms(f *ast.File) map[string][]ast.Node {
	found := make(map[string][]ast.Node)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if isFrom(f, n, "path/filepath", "EvalSymlinks") {
				found["links"] = append(found["links"], n)
			}
		case *ast.CallExpr:
			if slices.ContainsFunc(n.Args, isXDGVariable) {
				found["variable"] = append(found["variable"], n)
			}
		case *ast.IndexExpr: // of a map of variables
			if isXDGVariable(n.Index) {
				found["variable"] = append(found["variable"], n)
			}
		}
		return true
	})
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			found["pattern"] = append(found["pattern"], compiledPatterns(f, g)...)
		}
		var makes, renames ast.Node
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if isFrom(f, s, "os", "CreateTemp") || isFrom(f, s, module+"/internal/securefile", "CreateTemp") {
					makes = s
				}
				if isFrom(f, s, "os", "Rename") {
					renames = s
				}
			}
			return true
		})
		if makes != nil && renames != nil {
			found["replacement"] = append(found["replacement"], renames)
		}
	}
	maps.DeleteFunc(found, func(_ string, nodes []ast.Node) bool { return len(nodes) == 0 })
	return found
}

// compiledPatterns returns where the initial values of package variables compile a regular expression.
// A function literal does so only when it is called.
func compiledPatterns(f *ast.File, d *ast.GenDecl) []ast.Node {
	var found []ast.Node
	ast.Inspect(d, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && isFrom(f, s, "regexp", "MustCompile") {
			found = append(found, s)
		}
		_, literal := n.(*ast.FuncLit)
		return !literal
	})
	return found
}

func isXDGVariable(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return false
	}
	name, err := strconv.Unquote(literal.Value)
	return err == nil && xdgVariable.MatchString(name)
}

// isFrom reports whether s is name of the package with an import path, whatever the file calls it.
func isFrom(f *ast.File, s *ast.SelectorExpr, from, name string) bool {
	x, ok := s.X.(*ast.Ident)
	if !ok || s.Sel.Name != name {
		return false
	}
	return slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool {
		local := path.Base(from)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		return strings.Trim(spec.Path.Value, `"`) == from && local == x.Name
	})
}

func TestSmallMechanisms_Rule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ imports, body, want string }{
		"links":                        {`"path/filepath"`, `filepath.EvalSymlinks("a")`, "links"},
		"links by another name":        {`fp "path/filepath"`, `fp.EvalSymlinks("a")`, "links"},
		"a method of that name":        {`"path/filepath"`, `tree.EvalSymlinks("a")`, ""},
		"another package of that name": {`"example.org/filepath"`, `filepath.EvalSymlinks("a")`, ""},
		"a comment":                    {`"path/filepath"`, `_ = filepath.Join // filepath.EvalSymlinks`, ""},
		"a replacement":                {`"os"`, `f, _ := os.CreateTemp("", ""); os.Rename(f.Name(), "a")`, "replacement"},
		"one in a literal":             {`"os"`, `f, _ := os.CreateTemp("", ""); func() { os.Rename(f.Name(), "a") }()`, "replacement"},
		"a private one":                {`"os"; "` + module + `/internal/securefile"`, `f, _ := securefile.CreateTemp("", ""); os.Rename(f.Name(), "a")`, "replacement"},
		"a temporary file":             {`"os"`, `os.CreateTemp("", "")`, ""},
		"a rename":                     {`"os"`, `os.Rename("a", "b")`, ""},
		"a variable":                   {`"os"`, `os.Getenv("XDG_CONFIG_HOME")`, "variable"},
		"a variable by a parameter":    {`"os"`, `getenv("XDG_STATE_HOME")`, "variable"},
		"a variable in a map":          {`"os"`, "_ = env[`XDG_DATA_HOME`]", "variable"},
		"an entry":                     {`"strings"`, `strings.HasPrefix(entry, "XDG_CONFIG_HOME=")`, ""},
		"a list of names":              {`"os"`, `_ = []string{"XDG_CONFIG_HOME"}`, ""},
		"a pattern":                    {`"regexp"`, "}\nvar p = regexp.MustCompile(`a`)\nfunc g() {", "pattern"},
		"one in a table":               {`"regexp"`, "}\nvar p = []any{regexp.MustCompile(`a`)}\nfunc g() {", "pattern"},
		"one that a call compiles":     {`"regexp"`, "}\nvar p = func() any { return regexp.MustCompile(`a`) }\nfunc g() {", ""},
		"one in a function":            {`"regexp"`, "regexp.MustCompile(`a`)", ""},
	} {
		source := "package p\nimport (" + test.imports + ")\nfunc f() {\n" + test.body + "\n}\n"
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for kind := range ownMechanisms(f) {
			got = append(got, kind)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
