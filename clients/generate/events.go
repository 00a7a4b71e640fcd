package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// eventUnion is the name of the union of all events. Their common fields are the object eventHeader.
const eventUnion, eventHeader = "Event", "EventHeader"

// handWrittenEventFields has the fields of events that no visitor in package event describes: it encodes
// these itself. A test compares them with the JSON of Go.
var handWrittenEventFields = map[string][]objectField{
	"text": {
		{name: "stream", doc: "missing for standard output", kind: typeForm{enum: []string{"stderr"}}},
		{name: "text", kind: typeForm{basic: text}},
		{name: "data", doc: "in base64, instead of text that is not UTF-8", kind: typeForm{basic: text}},
		{name: "kind", doc: "the echo of a value, or the error report that ended the turn; missing for other text", kind: typeForm{enum: []string{"result", "traceback"}}},
	},
	"display": {
		{name: "data", doc: "by MIME type: text, or bytes that are not UTF-8", kind: typeForm{values: &typeForm{anyOf: []typeForm{{basic: text}, {object: "Base64"}}}}},
		{name: "meta", doc: "by MIME type", kind: typeForm{values: &typeForm{basic: anyValue}}},
		{name: "id", doc: "names it for updates", kind: typeForm{basic: text}},
		{name: "update", doc: "it replaces the last display with this id", kind: typeForm{basic: boolean}},
		{name: "result", doc: "it is the value of the turn", kind: typeForm{basic: boolean}},
		{name: "title", kind: typeForm{basic: text}},
		{name: "omitted", doc: "types that are not in data; read them with blob/get", kind: typeForm{values: &typeForm{object: "Blob"}}},
		{name: "message", doc: "names it in one line", kind: typeForm{basic: text}},
	},
	"limit": {{name: "message", doc: "says it in one line", kind: typeForm{basic: text}}},
}

// readEvents adds an object for each kind of event, and the union of them. The kinds are the calls of
// newKind in package event: they have the fields of each.
func (w *wireModel) readEvents(files []*ast.File) error {
	header := w.packages["event"]["headerJSON"].Type.(*ast.StructType)
	fields, err := w.structFields("event", header)
	if err != nil {
		return err
	}
	fields = slices.DeleteFunc(fields, func(f objectField) bool { return f.name == "type" })
	w.objects[eventHeader] = &wireObject{name: eventHeader, doc: "The fields of every event.", fields: fields}
	for _, used := range []string{"event.Blob", "event.base64JSON"} { // in handWrittenEventFields
		if _, err := w.formOfName(used); err != nil {
			return err
		}
	}
	visitors := make(map[string]*ast.BlockStmt)
	var kinds []*ast.CallExpr
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				visitors[fn.Name.Name] = fn.Body
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isNamed(call.Fun, "newKind") {
				kinds = append(kinds, call)
			}
			return true
		})
	}
	for _, call := range kinds {
		if err := w.addEvent(call, visitors); err != nil {
			return err
		}
	}
	if len(kinds) == 0 {
		return fmt.Errorf("package event has no calls of newKind")
	}
	return nil
}

// addEvent adds the object of a kind of event: newKind(number, "name", visitor).
func (w *wireModel) addEvent(call *ast.CallExpr, visitors map[string]*ast.BlockStmt) error {
	name, err := strconv.Unquote(call.Args[1].(*ast.BasicLit).Value)
	if err != nil {
		return err
	}
	var body *ast.BlockStmt
	var of string
	switch v := call.Args[2].(type) {
	case *ast.FuncLit:
		body, of = v.Body, w.qualifiedName("event", v.Type.Params.List[0].Type)
	case *ast.Ident:
		body, of = visitors[v.Name], "event.AccessDenied" // the only visitor with a name
	}
	if body == nil {
		return fmt.Errorf("the event %s has no visitor", name)
	}
	fields, err := w.visitedFields(of, body, visitors)
	if err != nil {
		return fmt.Errorf("the event %s: %w", name, err)
	}
	fields = append(fields, handWrittenEventFields[name]...)
	for i := range fields {
		fields[i].optional = true // a zero value is left out
	}
	short := strings.TrimPrefix(of, "event.")
	o := &wireObject{name: short + "Event", base: eventHeader, doc: w.docs[w.packages["event"][short]], fields: append([]objectField{{name: "type", kind: typeForm{enum: []string{name}}}}, fields...)}
	w.objects[o.name] = o
	w.events = append(w.events, o.name)
	return nil
}

// visitedFields returns the fields that a visitor of a body visits: v.visitText("name", &b.Name).
func (w *wireModel) visitedFields(body string, block *ast.BlockStmt, visitors map[string]*ast.BlockStmt) (list []objectField, err error) {
	for _, s := range block.List {
		call, ok := s.(*ast.ExprStmt).X.(*ast.CallExpr)
		if !ok {
			return nil, fmt.Errorf("a visitor must only call")
		}
		if fn, ok := call.Fun.(*ast.Ident); ok {
			more, err := w.visitedFields("event.AccessDenied", visitors[fn.Name], visitors)
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
			continue
		}
		name, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
		if err != nil {
			return nil, err
		}
		form, err := w.visitedForm(body, call)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, objectField{name: name, kind: form})
	}
	return list, nil
}

// visitedForm returns the form of a visited field. Text whose Go type has constants is one of them.
func (w *wireModel) visitedForm(body string, call *ast.CallExpr) (typeForm, error) {
	method := call.Fun.(*ast.SelectorExpr).Sel.Name
	form, ok := map[string]typeForm{
		"visitText": {basic: text}, "visitBytes": {basic: text}, "visitBool": {basic: boolean}, "visitFloat": {basic: number},
		"visitInt": {basic: integer}, "visitInt64": {basic: integer}, "visitUint": {basic: integer}, "visitDuration": {basic: integer},
	}[method]
	if !ok {
		return form, fmt.Errorf("unknown visitor method %s", method)
	}
	value := call.Args[1]
	if conversion, ok := value.(*ast.CallExpr); ok { // (*string)(&b.Kind)
		value = conversion.Args[0]
	}
	address, ok := value.(*ast.UnaryExpr)
	if !ok || address.Op != token.AND {
		return form, nil
	}
	field := address.X.(*ast.SelectorExpr).Sel.Name
	_, short, _ := strings.Cut(body, ".")
	for _, f := range w.packages["event"][short].Type.(*ast.StructType).Fields.List {
		if slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == field }) {
			if values := w.constants[w.qualifiedName("event", f.Type)]; values != nil && method == "visitText" {
				return typeForm{enum: values}, nil
			}
		}
	}
	return form, nil
}

func isNamed(e ast.Expr, name string) bool {
	if index, ok := e.(*ast.IndexExpr); ok {
		e = index.X
	}
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
