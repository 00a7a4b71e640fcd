package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A basicKind is the name of a scalar type in JSON Schema.
type basicKind string

const (
	text     basicKind = "string"
	integer  basicKind = "integer"
	number   basicKind = "number"
	boolean  basicKind = "boolean"
	anyValue basicKind = "any"
)

// A typeForm describes the JSON of a value. Exactly one of its fields is set.
type typeForm struct {
	basic  basicKind
	enum   []string
	list   *typeForm
	values *typeForm  // of an object with arbitrary names
	anyOf  []typeForm // one of these
	object string     // the name of an object or a union in the schema
}

// An objectField describes a field of an object.
type objectField struct {
	name     string
	doc      string
	optional bool
	kind     typeForm
}

// A wireObject describes a JSON object with its fields.
type wireObject struct {
	name   string
	base   string // the object whose fields it has, too; may be empty
	doc    string
	fields []objectField
}

// A wireModel holds all types and methods of the daemon's protocol.
type wireModel struct {
	protocol   string
	names      map[string]string // of methods, by their constants
	objects    map[string]*wireObject
	packages   map[string]map[string]*ast.TypeSpec // by package and name
	docs       map[*ast.TypeSpec]string
	constants  map[string][]string // the values of a string type
	customJSON map[string]bool     // the types that write their JSON themselves
	events     []string            // the objects of the kinds of events
}

// readModel reads the Go types below root.
func readModel(root string) (*wireModel, error) {
	w := &wireModel{
		names: make(map[string]string), objects: make(map[string]*wireObject), constants: make(map[string][]string), customJSON: make(map[string]bool),
		packages: make(map[string]map[string]*ast.TypeSpec), docs: make(map[*ast.TypeSpec]string),
	}
	var last []*ast.File
	for _, p := range []string{"client/protocol", "session", "timeline", "timeline/internal/event"} {
		var err error
		if last, err = w.parsePackage(filepath.Join(root, filepath.FromSlash(p)), path.Base(p)); err != nil {
			return nil, err
		}
	}
	if err := w.readEvents(last); err != nil {
		return nil, err
	}
	w.objects["SessionList"] = &wireObject{name: "SessionList", doc: "All sessions, by name.", fields: []objectField{{name: "sessions", kind: typeForm{list: &typeForm{object: "Session"}}}}}
	known := make(map[string]bool)
	for _, m := range slices.Concat(rpcMethods, rpcNotifications) {
		if w.names[m.name] == "" {
			return nil, fmt.Errorf("package protocol lacks the constant %s", m.name)
		}
		known[m.name] = true
		for _, t := range []string{m.params, m.result} {
			if t != "" && t != "list" {
				if _, err := w.formOfName(t); err != nil {
					return nil, fmt.Errorf("%s: %w", m.name, err)
				}
			}
		}
	}
	for name := range w.names {
		if !known[name] {
			return nil, fmt.Errorf("protocol.%s is not in the table of methods of clients/generate", name)
		}
	}
	return w, nil
}

// parsePackage reads the types, the methods' names and the constants of a package.
func (w *wireModel) parsePackage(dir, name string) (files []*ast.File, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	w.packages[name] = make(map[string]*ast.TypeSpec)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				w.addTypes(name, d)
			case *ast.FuncDecl:
				if d.Name.Name == "MarshalJSON" {
					w.customJSON[w.qualifiedName(name, d.Recv.List[0].Type)] = true
				}
			}
		}
	}
	return files, nil
}

func (w *wireModel) addTypes(pkg string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			w.packages[pkg][spec.Name.Name] = spec
			doc := spec.Doc
			if doc == nil {
				doc = g.Doc
			}
			w.docs[spec] = oneLine(doc.Text())
		case *ast.ValueSpec:
			w.addConstant(pkg, spec)
		}
	}
}

// addConstant records the name of a method, or a value of a string type.
func (w *wireModel) addConstant(pkg string, spec *ast.ValueSpec) {
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
		case name.Name == "Version" && pkg == "protocol":
			w.protocol = literal.Value
		case err != nil:
		case pkg == "protocol" && strings.HasPrefix(name.Name, "Method"):
			w.names[name.Name] = value
		case spec.Type != nil:
			t := w.qualifiedName(pkg, spec.Type)
			w.constants[t] = append(w.constants[t], value)
		}
	}
}

// qualifiedName returns a type's name as "package.Name".
func (w *wireModel) qualifiedName(pkg string, t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return pkg + "." + t.Name
	case *ast.SelectorExpr:
		return t.X.(*ast.Ident).Name + "." + t.Sel.Name
	case *ast.StarExpr:
		return w.qualifiedName(pkg, t.X)
	}
	return ""
}

// formOfName returns the form of a named type, and reads it if it is an object.
func (w *wireModel) formOfName(name string) (typeForm, error) {
	if other, ok := renamedTypes[name]; ok {
		name = other
	}
	if k, ok := handWrittenKinds[name]; ok {
		return k, nil
	}
	pkg, short, _ := strings.Cut(name, ".")
	spec := w.packages[pkg][short]
	if spec == nil {
		return typeForm{}, fmt.Errorf("unknown type %s", name)
	}
	if w.customJSON[name] {
		return typeForm{}, fmt.Errorf("%s writes its JSON itself; describe it in clients/generate/methods.go", name)
	}
	if values := w.constants[name]; values != nil {
		return typeForm{enum: values}, nil
	}
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return w.formOf(pkg, spec.Type)
	}
	as := typeNames[name]
	if as == "" {
		as = short
	}
	if o := w.objects[as]; o != nil {
		return typeForm{object: as}, nil
	}
	o := &wireObject{name: as, doc: w.docs[spec]}
	w.objects[as] = o // before its fields, which may refer to it
	fields, err := w.structFields(pkg, s)
	o.fields = fields
	for of, by := range renamedTypes {
		if by == name && o.doc == "" {
			o.doc = w.docs[w.packages[pkg][strings.TrimPrefix(of, pkg+".")]]
		}
	}
	if err != nil {
		return typeForm{}, fmt.Errorf("%s: %w", name, err)
	}
	return typeForm{object: as}, nil
}

func (w *wireModel) structFields(pkg string, s *ast.StructType) (list []objectField, err error) {
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
			embedded, err := w.embeddedFields(pkg, f.Type)
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
		k, err := w.formOf(pkg, f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		doc := f.Comment.Text()
		if doc == "" {
			doc = f.Doc.Text()
		}
		list = append(list, objectField{name: name, doc: oneLine(doc), optional: strings.Contains(options, "omit"), kind: k})
	}
	return list, nil
}

// embeddedFields returns the fields of an embedded struct, also through an alias.
func (w *wireModel) embeddedFields(pkg string, t ast.Expr) ([]objectField, error) {
	for {
		name := w.qualifiedName(pkg, t)
		from, short, _ := strings.Cut(name, ".")
		spec := w.packages[from][short]
		if spec == nil {
			return nil, fmt.Errorf("unknown type %s", name)
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			return w.structFields(from, s)
		}
		pkg, t = from, spec.Type
	}
}

// formOf returns the form of any type.
func (w *wireModel) formOf(pkg string, t ast.Expr) (typeForm, error) {
	switch t := t.(type) {
	case *ast.StarExpr:
		return w.formOf(pkg, t.X)
	case *ast.ArrayType:
		if elt, ok := t.Elt.(*ast.Ident); ok && elt.Name == "byte" {
			return typeForm{basic: text}, nil // in base64
		}
		k, err := w.formOf(pkg, t.Elt)
		return typeForm{list: &k}, err
	case *ast.MapType:
		k, err := w.formOf(pkg, t.Value)
		return typeForm{values: &k}, err
	case *ast.Ident:
		switch t.Name {
		case "string":
			return typeForm{basic: text}, nil
		case "bool":
			return typeForm{basic: boolean}, nil
		case "float64":
			return typeForm{basic: number}, nil
		case "int", "int64", "uint64", "uint32", "uint8":
			return typeForm{basic: integer}, nil
		case "any":
			return typeForm{basic: anyValue}, nil
		}
		return w.formOfName(pkg + "." + t.Name)
	case *ast.SelectorExpr:
		return w.formOfName(w.qualifiedName(pkg, t))
	}
	return typeForm{}, fmt.Errorf("unsupported type expression %T", t)
}

// sortedObjects returns the objects by name.
func (w *wireModel) sortedObjects() []*wireObject {
	var list []*wireObject
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		list = append(list, w.objects[name])
	}
	return list
}

// objectName returns the schema's name of a type in the table, or "".
func (w *wireModel) objectName(t string) string {
	if t == "" {
		return ""
	}
	if t == "list" {
		return typeNames[t]
	}
	k, err := w.formOfName(t)
	if err != nil {
		return ""
	}
	return k.object
}

// oneLine joins the lines of a comment.
func oneLine(doc string) string { return strings.Join(strings.Fields(doc), " ") }
