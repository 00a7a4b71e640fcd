// Package arch tests the tree's rules for its own source. They cover imports, names, comments,
// sizes and the list of flaky tests. They also check that documents name files and tests that
// exist. A rule with exceptions lists them, each with its reason. An exception that is no longer
// needed fails, too.
//
// The rules examine syntax. They get the list of files from the go command and git, import no other
// package of the module, and start no goroutines.
package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/turnstone-repl/turnstone"

// A pkg is a package directory with all its Go files, including those for other systems.
type pkg struct {
	name  string // below the module: "workers/python"
	dir   string
	files []*file
}

// A file is a parsed Go file of a package.
type file struct {
	name string // base name
	test bool
	ast  *ast.File
}

// A tree is the source of the module, and of the modules release and otelturnstone in it.
type tree struct {
	root string
	fset *token.FileSet
	pkgs []*pkg
}

// load returns the tree. It is parsed once, because no test changes it.
func load(t *testing.T) *tree {
	t.Helper()
	tr, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

var loaded = sync.OnceValues(func() (*tree, error) {
	root, err := output(".", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	tr := &tree{root: strings.TrimSpace(root), fset: token.NewFileSet()}
	for _, dir := range []string{".", "release", "otelturnstone"} { // the three modules
		if err := tr.add(filepath.Join(tr.root, dir)); err != nil {
			return nil, err
		}
	}
	return tr, nil
})

// add reads the packages of the module in a directory.
func (tr *tree) add(dir string) error {
	listed, err := output(dir, "go", "list", "-e", "-json=ImportPath,Dir", "./...")
	if err != nil {
		return err
	}
	if listed == "" {
		return errors.New("go list found no packages in " + dir)
	}
	list := json.NewDecoder(strings.NewReader(listed))
	for {
		var found struct{ ImportPath, Dir string }
		if err := list.Decode(&found); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		p := &pkg{name: strings.TrimPrefix(strings.TrimPrefix(found.ImportPath, module), "/"), dir: found.Dir}
		if err := p.parse(tr.fset); err != nil {
			return err
		}
		tr.pkgs = append(tr.pkgs, p)
	}
}

// parse reads the files of a package.
func (p *pkg) parse(fset *token.FileSet) error {
	paths, err := filepath.Glob(filepath.Join(p.dir, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		parsed, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		p.files = append(p.files, &file{name: name, test: strings.HasSuffix(name, "_test.go"), ast: parsed})
	}
	return nil
}

// at returns the file and line of n, relative to the root.
func (tr *tree) at(n ast.Node) string {
	pos := tr.fset.Position(n.Pos())
	if rel, err := filepath.Rel(tr.root, pos.Filename); err == nil {
		pos.Filename = filepath.ToSlash(rel)
	}
	pos.Column = 0
	return pos.String()
}

// texts returns the tracked text files below the root, by slash-separated path.
func (tr *tree) texts(t *testing.T) map[string]string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(tr.root, ".git")); err != nil {
		t.Skip("this is a copy of the tree without its git repository")
	}
	list, err := output(tr.root, "git", "ls-files", "-z")
	if err != nil { // git is not installed, or does not trust a tree of another user
		said, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), "\nfatal: ", ": "), "\n")
		t.Skip(said)
	}
	texts := make(map[string]string)
	for name := range strings.SplitSeq(list, "\x00") {
		data, err := os.ReadFile(filepath.Join(tr.root, filepath.FromSlash(name)))
		if name == "" || errors.Is(err, os.ErrNotExist) || strings.Contains(string(data), "\x00") {
			continue // the end of the list, removed and not yet committed, or binary
		}
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(data)
	}
	return texts
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := output(dir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// output runs a program and returns its standard output. An error has its standard error.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", cmd, err)
	}
	return string(out), err
}

// exceptions are places where a rule does not hold, each with the reason.
type exceptions map[string]string

// checker counts which exceptions are used, so that stale ones fail.
type checker struct {
	t       *testing.T
	allowed exceptions
	used    map[string]bool
}

func check(t *testing.T, allowed exceptions) *checker {
	c := &checker{t: t, allowed: allowed, used: make(map[string]bool)}
	t.Cleanup(func() {
		for name := range allowed {
			if !c.used[name] {
				t.Errorf("the exception %q is not needed any more: remove it", name)
			}
		}
	})
	return c
}

// violation reports a broken rule, unless name is an exception.
func (c *checker) violation(name, format string, args ...any) {
	c.t.Helper()
	if _, ok := c.allowed[name]; ok {
		c.used[name] = true
		return
	}
	c.t.Errorf(format+" (as an exception: %q)", append(args, name)...)
}

// isTestCode reports whether only tests use a package: a test suite, or helpers of tests.
func isTestCode(name string) bool {
	return strings.HasPrefix(name, "tests/") || strings.HasPrefix(name, "internal/testkit/")
}
