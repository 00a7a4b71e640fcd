package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The basic kinds of JSON.
type basic string

const (
	text     basic = "string"
	integer  basic = "integer"
	number   basic = "number"
	truth    basic = "boolean"
	anything basic = "any"
)

// A kind is the form of one value. One of its fields is set.
type kind struct {
	basic  basic
	enum   []string
	list   *kind
	values *kind  // of an object with any names
	object string // the name of an object in the schema
}

// A field is one of an object.
type field struct {
	name     string
	doc      string
	optional bool
	kind     kind
}

// An object is a type with fields.
type object struct {
	name   string
	doc    string
	fields []field
}

// A wire is all that goes over the socket of a daemon.
type wire struct {
	protocol  string
	names     map[string]string // of methods, by their constants
	objects   map[string]*object
	packages  map[string]map[string]*ast.TypeSpec // by package and name
	docs      map[*ast.TypeSpec]string
	constants map[string][]string // the values of a type of texts
	byMethod  map[string]bool     // the types that write their JSON themselves
}

// readWire reads the Go types below root.
func readWire(root string) (*wire, error) {
	w := &wire{
		names: make(map[string]string), objects: make(map[string]*object), constants: make(map[string][]string), byMethod: make(map[string]bool),
		packages: make(map[string]map[string]*ast.TypeSpec), docs: make(map[*ast.TypeSpec]string),
	}
	for _, p := range []string{"client", "session", "timeline"} {
		if err := w.parse(filepath.Join(root, p), p); err != nil {
			return nil, err
		}
	}
	w.objects["SessionList"] = &object{name: "SessionList", doc: "All sessions, by name.", fields: []field{{name: "sessions", kind: kind{list: &kind{object: "Session"}}}}}
	known := make(map[string]bool)
	for _, m := range slices.Concat(methods, notifications) {
		if w.names[m.name] == "" {
			return nil, fmt.Errorf("package client has no constant %s", m.name)
		}
		known[m.name] = true
		for _, t := range []string{m.params, m.result} {
			if t != "" && t != "list" {
				if _, err := w.kindOf(t); err != nil {
					return nil, fmt.Errorf("%s: %w", m.name, err)
				}
			}
		}
	}
	for name := range w.names {
		if !known[name] {
			return nil, fmt.Errorf("client.%s is not in the table of methods of clients/generate", name)
		}
	}
	return w, nil
}

// parse reads the types, the methods' names and the constants of a package.
func (w *wire) parse(dir, name string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	w.packages[name] = make(map[string]*ast.TypeSpec)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				w.declare(name, d)
			case *ast.FuncDecl:
				if d.Name.Name == "MarshalJSON" {
					w.byMethod[w.qualified(name, d.Recv.List[0].Type)] = true
				}
			}
		}
	}
	return nil
}

func (w *wire) declare(pkg string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			w.packages[pkg][spec.Name.Name] = spec
			doc := spec.Doc
			if doc == nil {
				doc = g.Doc
			}
			w.docs[spec] = sentence(doc.Text())
		case *ast.ValueSpec:
			w.constant(pkg, spec)
		}
	}
}

// constant keeps the name of a method, or one value of a type of texts.
func (w *wire) constant(pkg string, spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if i >= len(spec.Values) {
			continue
		}
		literal, ok := spec.Values[i].(*ast.BasicLit)
		if !ok {
			continue
		}
		value, err := strconv.Unquote(literal.Value)
		switch {
		case name.Name == "Protocol" && pkg == "client":
			w.protocol = literal.Value
		case err != nil:
		case pkg == "client" && strings.HasPrefix(name.Name, "Method"):
			w.names[name.Name] = value
		case spec.Type != nil:
			t := w.qualified(pkg, spec.Type)
			w.constants[t] = append(w.constants[t], value)
		}
	}
}

// qualified names a type as "package.Name".
func (w *wire) qualified(pkg string, t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return pkg + "." + t.Name
	case *ast.SelectorExpr:
		return t.X.(*ast.Ident).Name + "." + t.Sel.Name
	case *ast.StarExpr:
		return w.qualified(pkg, t.X)
	}
	return ""
}

// kindOf returns the form of a named type, and reads it if it is an object.
func (w *wire) kindOf(name string) (kind, error) {
	if other, ok := renamed[name]; ok {
		name = other
	}
	if k, ok := byHand[name]; ok {
		return k, nil
	}
	pkg, short, _ := strings.Cut(name, ".")
	spec := w.packages[pkg][short]
	if spec == nil {
		return kind{}, fmt.Errorf("there is no type %s", name)
	}
	if w.byMethod[name] {
		return kind{}, fmt.Errorf("%s writes its JSON itself: say in clients/generate/methods.go how", name)
	}
	if values := w.constants[name]; values != nil {
		return kind{enum: values}, nil
	}
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return w.kind(pkg, spec.Type)
	}
	as := names[name]
	if as == "" {
		as = short
	}
	if o := w.objects[as]; o != nil {
		return kind{object: as}, nil
	}
	o := &object{name: as, doc: w.docs[spec]}
	w.objects[as] = o // before its fields, which may hold one of its own kind
	fields, err := w.fields(pkg, s)
	o.fields = fields
	for of, by := range renamed {
		if by == name && o.doc == "" {
			o.doc = w.docs[w.packages[pkg][strings.TrimPrefix(of, pkg+".")]]
		}
	}
	if err != nil {
		return kind{}, fmt.Errorf("%s: %w", name, err)
	}
	return kind{object: as}, nil
}

func (w *wire) fields(pkg string, s *ast.StructType) (list []field, err error) {
	for _, f := range s.Fields.List {
		tag := ""
		if f.Tag != nil {
			unquoted, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				return nil, err
			}
			tag = reflect.StructTag(unquoted).Get("json")
		}
		if len(f.Names) == 0 {
			embedded, err := w.embedded(pkg, f.Type)
			if err != nil {
				return nil, err
			}
			list = append(list, embedded...)
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || name == "" {
			continue
		}
		k, err := w.kind(pkg, f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		doc := f.Comment.Text()
		if doc == "" {
			doc = f.Doc.Text()
		}
		list = append(list, field{name: name, doc: sentence(doc), optional: strings.Contains(options, "omit"), kind: k})
	}
	return list, nil
}

// embedded returns the fields of a struct within another one, also through a name for it.
func (w *wire) embedded(pkg string, t ast.Expr) ([]field, error) {
	for {
		name := w.qualified(pkg, t)
		from, short, _ := strings.Cut(name, ".")
		spec := w.packages[from][short]
		if spec == nil {
			return nil, fmt.Errorf("there is no type %s", name)
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			return w.fields(from, s)
		}
		pkg, t = from, spec.Type
	}
}

// kind returns the form of any type.
func (w *wire) kind(pkg string, t ast.Expr) (kind, error) {
	switch t := t.(type) {
	case *ast.StarExpr:
		return w.kind(pkg, t.X)
	case *ast.ArrayType:
		if elt, ok := t.Elt.(*ast.Ident); ok && elt.Name == "byte" {
			return kind{basic: text}, nil // in base64
		}
		k, err := w.kind(pkg, t.Elt)
		return kind{list: &k}, err
	case *ast.MapType:
		k, err := w.kind(pkg, t.Value)
		return kind{values: &k}, err
	case *ast.Ident:
		switch t.Name {
		case "string":
			return kind{basic: text}, nil
		case "bool":
			return kind{basic: truth}, nil
		case "float64":
			return kind{basic: number}, nil
		case "int", "int64", "uint64", "uint32", "uint8":
			return kind{basic: integer}, nil
		case "any":
			return kind{basic: anything}, nil
		}
		return w.kindOf(pkg + "." + t.Name)
	case *ast.SelectorExpr:
		return w.kindOf(w.qualified(pkg, t))
	}
	return kind{}, fmt.Errorf("a %T has no form in JSON here", t)
}

// sorted returns the objects by name.
func (w *wire) sorted() []*object {
	var list []*object
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		list = append(list, w.objects[name])
	}
	return list
}

// objectName is the name of a type of the table in the schema; "" without one.
func (w *wire) objectName(t string) string {
	if t == "" {
		return ""
	}
	if t == "list" {
		return names[t]
	}
	k, err := w.kindOf(t)
	if err != nil {
		return ""
	}
	return k.object
}

// sentence makes one line of a comment.
func sentence(doc string) string { return strings.Join(strings.Fields(doc), " ") }
