package arch

import (
	"go/ast"
	"testing"
)

// The bounds keep each part small enough to be understood at once.
const (
	maxStructFields     = 25
	maxInterfaceMethods = 8
	maxFunctionLines    = 80
	maxFileLines        = 600
	maxPackageFiles     = 25
	maxPackageLines     = 3000
)

func TestSizes(t *testing.T) {
	t.Parallel()
	tr := load(t)

	t.Run("structs and interfaces", func(t *testing.T) {
		c := check(t, exceptions{
			"session Info": "what is known of a session, as one JSON object",
		})
		tr.typesOf(func(p *pkg, spec *ast.TypeSpec, _ *ast.CommentGroup) {
			switch x := spec.Type.(type) {
			case *ast.StructType:
				if n := x.Fields.NumFields(); n > maxStructFields {
					c.violation(p.name+" "+spec.Name.Name, "%s: %s has %d fields, more than %d", tr.at(spec), spec.Name.Name, n, maxStructFields)
				}
			case *ast.InterfaceType:
				if n := x.Methods.NumFields(); n > maxInterfaceMethods {
					c.violation(p.name+" "+spec.Name.Name, "%s: %s has %d methods, more than %d", tr.at(spec), spec.Name.Name, n, maxInterfaceMethods)
				}
			}
		})
	})

	// A table is data: a function whose body is one literal counts as such.
	t.Run("functions", func(t *testing.T) {
		c := check(t, exceptions{
			"supervisor newConfinement": "the steps share one plan; divided with the sandbox",
		})
		tr.functionsOf(func(p *pkg, fn *ast.FuncDecl) {
			if fn.Body == nil || isTable(fn.Body) {
				return
			}
			lines := tr.fset.Position(fn.End()).Line - tr.fset.Position(fn.Pos()).Line + 1
			if lines > maxFunctionLines {
				c.violation(p.name+" "+fn.Name.Name, "%s: %s has %d lines, more than %d", tr.at(fn), fn.Name.Name, lines, maxFunctionLines)
			}
		})
	})

	t.Run("files and packages", func(t *testing.T) {
		c := check(t, exceptions{
			"cmd/internal/daemon": "the calls of one server, which share its sessions, locks and readers",
			"session":             "the words of a session, its one interface, and the calls that are built on that",
			"supervisor":          "the session machine is one subject, whose methods belong together",
		})
		for _, p := range tr.pkgs {
			if isTestCode(p.name) {
				continue
			}
			files, total := 0, 0
			for _, f := range p.files {
				if f.test {
					continue
				}
				files++
				lines := tr.fset.Position(f.ast.FileEnd).Line
				total += lines
				if lines > maxFileLines {
					c.violation(p.name+"/"+f.name, "%s/%s has %d lines, more than %d", p.name, f.name, lines, maxFileLines)
				}
			}
			if files > maxPackageFiles {
				c.violation(p.name, "%s has %d files, more than %d", p.name, files, maxPackageFiles)
			}
			if total > maxPackageLines {
				c.violation(p.name, "%s has %d lines, more than %d", p.name, total, maxPackageLines)
			}
		}
	})
}

func isTable(body *ast.BlockStmt) bool {
	if len(body.List) != 1 {
		return false
	}
	result, ok := body.List[0].(*ast.ReturnStmt)
	if !ok || len(result.Results) != 1 {
		return false
	}
	_, ok = result.Results[0].(*ast.CompositeLit)
	return ok
}
