package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The protocol page documents each method, each kind of error, each type of event, and each
// field.
func TestProtocolPage_Complete(t *testing.T) {
	page, err := os.ReadFile("../docs/daemon-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	wants := func(name string) {
		found++
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/daemon-protocol.md has no `%s`", name)
		}
	}
	for _, file := range []string{"protocol/messages.go", "../session/values.go", "../session/reading.go", "../session/error.go", "../timeline/internal/event/json.go", "../cmd/internal/rpcserver/error.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i >= len(n.Values) {
						continue
					}
					isWord := ast.IsExported(name.Name) || strings.HasPrefix(name.Name, "type")
					if l, ok := n.Values[i].(*ast.BasicLit); ok && l.Kind == token.STRING && isWord {
						text, _ := strconv.Unquote(l.Value)
						wants(text)
					}
				}
			case *ast.TypeSpec:
				isParams := strings.HasSuffix(n.Name.Name, "Params") || strings.HasSuffix(n.Name.Name, "Query")
				if s, ok := n.Type.(*ast.StructType); ok && isParams {
					for _, field := range s.Fields.List {
						if field.Tag == nil { // embedded
							continue
						}
						tag, _ := strconv.Unquote(field.Tag.Value)
						name, _, _ := strings.Cut(strings.TrimPrefix(tag, `json:"`), `"`)
						wants(strings.TrimSuffix(strings.TrimSuffix(name, ",omitempty"), ",omitzero"))
					}
				}
			}
			return true
		})
	}
	if found < 80 {
		t.Errorf("only %d names were looked for", found)
	}
}
