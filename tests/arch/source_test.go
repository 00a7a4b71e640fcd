package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

func TestSource(t *testing.T) {
	t.Parallel()

	t.Run("a package has exactly one comment", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		for _, p := range tr.pkgs {
			onlyTests := !slices.ContainsFunc(p.files, func(f *file) bool { return !f.test })
			var with []string
			for _, f := range p.files {
				if f.ast.Doc.Text() != "" && (!f.test || onlyTests) {
					with = append(with, f.name)
				}
			}
			if len(with) != 1 {
				t.Errorf("package %s has its comment in %d files %v, want one", p.name, len(with), with)
			}
		}
	})

	t.Run("no package has an init function", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		c := check(t, exceptions{
			"supervisor/internal/monitor": "the monitor must not initialize the rest of the program first; in other processes it compares a string",
		})
		for _, p := range tr.pkgs {
			for _, f := range p.files {
				for _, d := range f.ast.Decls {
					if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
						c.violation(p.name, "%s: init runs for every program that imports the package: call it from where it is needed", tr.at(fn))
					}
				}
			}
		}
	})

	// A difference between systems is a file for each of them, not a branch.
	t.Run("only the package that starts processes asks for the system", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		c := check(t, exceptions{"cmd/internal/remote/bridge/bridge.go": "the greeting names the system; nothing differs by it"})
		for _, p := range tr.pkgs {
			if p.name == "supervisor/internal/launch" {
				continue
			}
			for _, f := range p.files {
				for _, use := range selections(f.ast, "runtime", "GOOS") {
					c.violation(p.name+"/"+f.name, "%s: runtime.GOOS: put the difference into a file for each system", tr.at(use))
				}
			}
		}
	})

	// The library does what its options say. Arguments and environment of the process belong to
	// the program, which is under cmd, examples, release or clients.
	t.Run("only commands read the process", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		c := check(t, exceptions{
			"supervisor Environ":                 "a worker inherits the environment; Options.Env replaces it",
			"workers/conformance Environ":        "the worker that is checked inherits the environment",
			"workers/internal/discovery Environ": "discovery looks where the user would; FindOptions.Env replaces it",
			"client Getenv":                      "the user's daemon is where their environment says; the getenv of Usual replaces it",
			"supervisor/internal/monitor Args":   "the monitor is a separate program",
			"supervisor/internal/monitor Chdir":  "the monitor is a separate program",
		})
		for _, p := range tr.pkgs {
			if p.name == "release" || p.name == "clients/generate" || strings.HasPrefix(p.name, "cmd/") || isTestCode(p.name) || strings.HasPrefix(p.name, "examples/") {
				continue
			}
			for _, f := range p.files {
				if f.test {
					continue
				}
				for _, name := range []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Args", "Stdin", "Stdout", "Stderr", "Exit", "Chdir"} {
					for _, use := range selections(f.ast, "os", name) {
						c.violation(p.name+" "+name, "%s: os.%s outside of cmd: take it as an option", tr.at(use), name)
					}
				}
			}
		}
	})

	// A test that sleeps is slow when it passes, and wrong on a busy machine. In a synctest bubble time
	// is not real. A function in the exceptions is the body of another process, whose purpose is to
	// take time.
	t.Run("tests do not sleep", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		c := check(t, exceptions{
			"supervisor advanceTime":                 "a fakeProcess is in a bubble, or its test fails",
			"internal/testkit/testexec BlockForever": "a program that never answers",
			"supervisor TestAnswer_Race":             "answers at times around the end of a real program, and each outcome is right",
		})
		for _, p := range tr.pkgs {
			for _, f := range p.files {
				if !f.test && !isTestCode(p.name) {
					continue
				}
				for _, d := range f.ast.Decls {
					fn, ok := d.(*ast.FuncDecl)
					if !ok {
						continue
					}
					bubbles := selections(fn, "testing/synctest", "Test")
					for _, use := range selections(fn, "time", "Sleep") {
						inBubble := slices.ContainsFunc(calls(fn, bubbles), func(call *ast.CallExpr) bool {
							return call.Pos() <= use.Pos() && use.End() <= call.End()
						})
						if !inBubble {
							c.violation(p.name+" "+fn.Name.Name, "%s: time.Sleep in %s: wait for a fact, or use testing/synctest", tr.at(use), fn.Name.Name)
						}
					}
				}
			}
		}
	})

	// The code that decides about a session starts no processes, so that tests can run it in fake time.
	t.Run("the session machine does nothing itself", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		files := map[string]bool{"machine.go": false, "machine_events.go": false, "limit.go": false, "frame.go": false, "interrupt.go": false, "input_request.go": false, "state.go": false, "input.go": false}
		for _, p := range tr.pkgs {
			if p.name != "supervisor" {
				continue
			}
			for _, f := range p.files {
				if _, listed := files[f.name]; !listed {
					continue
				}
				files[f.name] = true
				for _, spec := range f.ast.Imports {
					switch path := strings.Trim(spec.Path.Value, `"`); path {
					case "context", "os", "sync", module + "/supervisor/internal/launch":
						t.Errorf("%s: %s decides, and must not import %s: leave it as an effect", tr.at(spec), f.name, path)
					}
				}
				for _, name := range []string{"After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"} {
					for _, use := range selections(f.ast, "time", name) {
						t.Errorf("%s: time.%s: %s names the moment that is due, and others wait for it", tr.at(use), name, f.name)
					}
				}
				ast.Inspect(f.ast, func(n ast.Node) bool {
					if g, ok := n.(*ast.GoStmt); ok {
						t.Errorf("%s: %s starts no goroutine", tr.at(g), f.name)
					}
					return true
				})
			}
		}
		for name, found := range files {
			if !found {
				t.Errorf("supervisor/%s is not there", name)
			}
		}
	})

	// Package state is shared by the whole process, so that two supervisors in it would disturb each
	// other. Tables that nothing writes to are fine.
	t.Run("no package has mutable variables", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		c := check(t, exceptions{
			"supervisor/internal/launch monitorMainCalled": "whether main called MonitorMain is a fact of the process, written once",
			"workers/python moduleSources":                 "the embedded source, read once and never changed",
			"workers/r scriptSources":                      "the embedded source, read once and never changed",
			"timeline/internal/event jsonNames":            "the names of fields in JSON, read once and never changed",
			"internal/mcptransport orderedCalls":           "the MCP SDK passes only text from a connection to a tool, so a tool finds its call by a key that nobody else knows",
		})
		for _, p := range tr.pkgs {
			var files []*ast.File
			for _, f := range p.files {
				if !f.test {
					files = append(files, f.ast)
				}
			}
			info := &types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
			config := types.Config{Importer: emptyPackages{}, Error: func(error) {}} // names suffice: imports stay unknown
			checked, _ := config.Check(p.name, tr.fset, files, info)
			isVariable := func(e ast.Expr) (name string, ok bool) {
				id := root(e)
				if id == nil {
					return "", false
				}
				v, ok := info.Uses[id].(*types.Var)
				return id.Name, ok && v.Parent() == checked.Scope()
			}
			report := func(at ast.Node, name, what string) {
				c.violation(p.name+" "+name, "%s: %s the package variable %s: keep it in a value with an owner", tr.at(at), what, name)
			}
			for _, f := range files {
				ast.Inspect(f, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.AssignStmt:
						for _, left := range n.Lhs {
							if name, ok := isVariable(left); ok {
								report(n, name, "writes to")
							}
						}
					case *ast.IncDecStmt:
						if name, ok := isVariable(n.X); ok {
							report(n, name, "changes")
						}
					case *ast.UnaryExpr:
						if n.Op != token.AND {
							break
						}
						if name, ok := isVariable(n.X); ok {
							report(n, name, "takes the address of")
						}
					}
					return true
				})
				for _, d := range f.Decls {
					decl, ok := d.(*ast.GenDecl)
					if !ok || decl.Tok != token.VAR {
						continue
					}
					for _, s := range decl.Specs {
						spec := s.(*ast.ValueSpec)
						if holdsState(spec) {
							report(spec, spec.Names[0].Name, "declares as state")
						}
					}
				}
			}
		}
	})
}

// holdsState reports whether a declaration makes something that exists only to be changed: a lock, an
// atomic, a channel or an empty container.
func holdsState(spec *ast.ValueSpec) bool {
	state := false
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ChanType:
			state = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && (x.Name == "sync" || x.Name == "atomic") {
				state = true
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "make" || f.Name == "new") {
				state = true
			}
		}
		return true
	}
	if spec.Type != nil {
		ast.Inspect(spec.Type, look)
	}
	for _, v := range spec.Values {
		ast.Inspect(v, look)
	}
	return state
}

// root returns the variable that an assignment to e changes, or nil.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// emptyPackages is an importer that returns an empty package for each path.
type emptyPackages struct{}

func (emptyPackages) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

// selections returns the uses of pkg.name in n. Only the last element of pkg counts, because the tree
// imports these packages under that name.
func selections(n ast.Node, pkg, name string) []*ast.SelectorExpr {
	var found []*ast.SelectorExpr
	pkg = pkg[strings.LastIndex(pkg, "/")+1:]
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}

// calls returns the calls in n of any of the functions.
func calls(n ast.Node, functions []*ast.SelectorExpr) []*ast.CallExpr {
	var found []*ast.CallExpr
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(functions, f) {
				found = append(found, call)
			}
		}
		return true
	})
	return found
}
