package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const generatedNotice = "Written by go run ./clients/generate from the Go types of package client/protocol. Do not edit."

// writeSchema writes the JSON Schema, with the methods next to the types.
func (w *wireModel) writeSchema() ([]byte, error) {
	types := make(map[string]any)
	for _, o := range w.sortedObjects() {
		properties := make(map[string]any)
		required := []string{}
		for _, f := range w.allFields(o) {
			s := f.kind.schemaOf()
			if f.doc != "" {
				s["description"] = f.doc
			}
			properties[f.name] = s
			if !f.optional {
				required = append(required, f.name)
			}
		}
		types[o.name] = map[string]any{"type": "object", "description": o.doc, "properties": properties, "required": required}
	}
	types[eventUnion] = w.eventSchema()
	table := func(list []rpcMethod) map[string]any {
		entries := make(map[string]any)
		for _, m := range list {
			e := make(map[string]any)
			if name := w.objectName(m.params); name != "" {
				e["params"] = schemaRef(name)
			}
			if name := w.objectName(m.result); name != "" {
				e["result"] = schemaRef(name)
			}
			entries[w.names[m.name]] = e
		}
		return entries
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": generatedNotice,
		"title": "The protocol of the daemon, version " + w.protocol + ": docs/daemon-protocol.md",
		"$defs": types, "methods": table(rpcMethods), "notifications": table(rpcNotifications),
	})
	return b.Bytes(), err
}

// allFields returns the fields of an object and of its base.
func (w *wireModel) allFields(o *wireObject) []objectField {
	if o.base == "" {
		return o.fields
	}
	return slices.Concat(w.objects[o.base].fields, o.fields)
}

// eventSchema returns the union of all events. A later daemon may send other types.
func (w *wireModel) eventSchema() map[string]any {
	var members []any
	var names []string
	for _, name := range w.events {
		members = append(members, schemaRef(name))
		names = append(names, w.objects[name].fields[0].kind.enum...)
	}
	members = append(members, map[string]any{
		"description": "An event of a later version.", "type": "object", "required": []string{"type"},
		"properties": map[string]any{"type": map[string]any{"type": text, "not": map[string]any{"enum": names}}},
	})
	return map[string]any{"description": eventDoc, "anyOf": members}
}

const eventDoc = "An entry of a session's timeline. Its type says which fields it has. A later version may send other types: ignore those."

func schemaRef(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

func (f typeForm) schemaOf() map[string]any {
	switch {
	case f.object != "":
		return schemaRef(f.object)
	case f.list != nil:
		return map[string]any{"type": "array", "items": f.list.schemaOf()}
	case f.values != nil:
		return map[string]any{"type": "object", "additionalProperties": f.values.schemaOf()}
	case f.enum != nil:
		return map[string]any{"enum": f.enum}
	case f.anyOf != nil:
		var list []any
		for _, one := range f.anyOf {
			list = append(list, one.schemaOf())
		}
		return map[string]any{"anyOf": list}
	case f.basic == anyValue:
		return map[string]any{}
	}
	return map[string]any{"type": f.basic}
}

// writePython writes a TypedDict for each object. Optional fields, and fields whose names are
// Python keywords, need classes of their own.
func (w *wireModel) writePython() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\"\"\"Types of the daemon's protocol.\n\n%s\n\"\"\"\n\nfrom __future__ import annotations\n\nfrom typing import Any, Dict, List, Literal, TypedDict, Union\n\nPROTOCOL = %s\n", generatedNotice, w.protocol)
	objects := w.sortedObjects()
	if i := slices.IndexFunc(objects, func(o *wireObject) bool { return o.name == eventHeader }); i >= 0 { // a base comes first
		header := objects[i]
		objects = append([]*wireObject{header}, slices.Delete(objects, i, i+1)...)
	}
	for _, o := range objects {
		base := o.base
		if base == "" {
			base = "TypedDict"
		}
		if required := o.writeClass(&b, "_"+o.name, base, false); required {
			base = "_" + o.name
		}
		if o.writeKeywords(&b) {
			base = "_" + o.name + "Keywords, " + base
		}
		o.writeClass(&b, o.name, strings.TrimSuffix(base, ", TypedDict"), true)
	}
	fmt.Fprintf(&b, "\n\n# %s\nEvent = Union[\n", eventDoc)
	for _, name := range w.events {
		fmt.Fprintf(&b, "    %s,\n", name)
	}
	b.WriteString("]\n")
	return b.Bytes()
}

// writeKeywords writes a TypedDict with the fields that a class cannot have. It returns false if there
// are none. All of them are optional.
func (o *wireObject) writeKeywords(b *bytes.Buffer) bool {
	var fields []string
	for _, f := range o.fields {
		if pythonKeywords[f.name] {
			fields = append(fields, fmt.Sprintf("%q: %s", f.name, f.kind.pythonType()))
		}
	}
	if fields == nil {
		return false
	}
	fmt.Fprintf(b, "\n\n_%sKeywords = TypedDict(\"_%sKeywords\", {%s}, total=False)\n", o.name, o.name, strings.Join(fields, ", "))
	return true
}

// writeClass writes a class with the required or the optional fields. It returns false if there are
// no required ones.
func (o *wireObject) writeClass(b *bytes.Buffer, name, base string, optional bool) bool {
	var lines []string
	for _, f := range o.fields {
		if f.optional == optional && !pythonKeywords[f.name] {
			lines = append(lines, pythonField(f))
		}
	}
	if len(lines) == 0 && !optional {
		return false
	}
	total := ""
	if optional {
		total = ", total=False"
	}
	fmt.Fprintf(b, "\n\nclass %s(%s%s):\n", name, base, total)
	if optional && o.doc != "" {
		fmt.Fprintf(b, "    \"\"\"%s\"\"\"\n\n", strings.ReplaceAll(o.doc, `"`, `'`))
	}
	if len(lines) == 0 {
		b.WriteString("    pass\n")
	}
	b.WriteString(strings.Join(lines, ""))
	return true
}

func pythonField(f objectField) string {
	line := "    " + f.name + ": " + f.kind.pythonType()
	if f.doc != "" {
		line += "  # " + f.doc
	}
	return line + "\n"
}

// pythonKeywords are field names that a class cannot have.
var pythonKeywords = map[string]bool{"from": true}

func (f typeForm) pythonType() string {
	switch {
	case f.object != "":
		return `"` + f.object + `"`
	case f.list != nil:
		return "List[" + f.list.pythonType() + "]"
	case f.values != nil:
		return "Dict[str, " + f.values.pythonType() + "]"
	case f.enum != nil:
		return "Literal[" + quoteList(f.enum, ", ") + "]"
	case f.anyOf != nil:
		return "Union[" + joinTypes(f.anyOf, typeForm.pythonType, ", ") + "]"
	}
	return map[basicKind]string{text: "str", integer: "int", number: "float", boolean: "bool", anyValue: "Any"}[f.basic]
}

func joinTypes(list []typeForm, written func(typeForm) string, between string) string {
	var names []string
	for _, f := range list {
		names = append(names, written(f))
	}
	return strings.Join(names, between)
}

func quoteList(list []string, between string) string {
	var b []string
	for _, s := range list {
		b = append(b, fmt.Sprintf("%q", s))
	}
	return strings.Join(b, between)
}

// writeTypeScript writes an interface for each object, and the types of each method.
func (w *wireModel) writeTypeScript() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Types of the daemon's protocol.\n// %s\n\nexport const protocol = %s;\n", generatedNotice, w.protocol)
	for _, o := range w.sortedObjects() {
		b.WriteString("\n")
		if o.doc != "" {
			fmt.Fprintf(&b, "/** %s */\n", o.doc)
		}
		extends := ""
		if o.base != "" {
			extends = " extends " + o.base
		}
		fmt.Fprintf(&b, "export interface %s%s {\n", o.name, extends)
		for _, f := range o.fields {
			if f.doc != "" {
				fmt.Fprintf(&b, "  /** %s */\n", f.doc)
			}
			mark := ""
			if f.optional {
				mark = "?"
			}
			fmt.Fprintf(&b, "  %s%s: %s;\n", f.name, mark, f.kind.typeScriptType())
		}
		b.WriteString("}\n")
	}
	fmt.Fprintf(&b, "\n/** %s */\nexport type Event =\n  | %s;\n", eventDoc, strings.Join(w.events, "\n  | "))
	w.typescriptTable(&b, "Methods", "Methods with their params and results.", rpcMethods)
	w.typescriptTable(&b, "Notifications", "Notifications that the daemon sends.", rpcNotifications)
	return b.Bytes()
}

func (w *wireModel) typescriptTable(b *bytes.Buffer, name, doc string, list []rpcMethod) {
	fmt.Fprintf(b, "\n/** %s */\nexport interface %s {\n", doc, name)
	for _, m := range list {
		params, result := w.objectName(m.params), w.objectName(m.result)
		if params == "" {
			params = "Record<string, never>"
		}
		if result == "" {
			result = "Record<string, never>"
		}
		fmt.Fprintf(b, "  %q: { params: %s; result: %s };\n", w.names[m.name], params, result)
	}
	b.WriteString("}\n")
}

func (f typeForm) typeScriptType() string {
	switch {
	case f.object != "":
		return f.object
	case f.list != nil && f.list.enum != nil:
		return "(" + f.list.typeScriptType() + ")[]"
	case f.list != nil:
		return f.list.typeScriptType() + "[]"
	case f.values != nil:
		return "Record<string, " + f.values.typeScriptType() + ">"
	case f.enum != nil:
		return quoteList(f.enum, " | ")
	case f.anyOf != nil:
		return joinTypes(f.anyOf, typeForm.typeScriptType, " | ")
	}
	return map[basicKind]string{text: "string", integer: "number", number: "number", boolean: "boolean", anyValue: "unknown"}[f.basic]
}
