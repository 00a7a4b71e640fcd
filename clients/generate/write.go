package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const generatedNotice = "Written by go run ./clients/generate from the Go types of package client/protocol. Do not edit."

// writeSchema writes the JSON Schema, with the methods next to the types.
func (w *wireModel) writeSchema() ([]byte, error) {
	types := make(map[string]any)
	for _, o := range w.sortedObjects() {
		properties := make(map[string]any)
		required := []string{}
		for _, f := range o.fields {
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
		"$defs": types, "methods": table(rpcMethods), "notifications": table(rpcNotifications), "requests": table(rpcRequests),
	})
	return b.Bytes(), err
}

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
	case f.basic == anyValue:
		return map[string]any{}
	}
	return map[string]any{"type": f.basic}
}

// writePython writes a TypedDict for each object. Optional fields, and fields whose names are
// Python keywords, need the form with two classes.
func (w *wireModel) writePython() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\"\"\"Types of the daemon's protocol.\n\n%s\n\"\"\"\n\nfrom __future__ import annotations\n\nfrom typing import Any, Dict, List, Literal, TypedDict, Union\n\nPROTOCOL = %s\n", generatedNotice, w.protocol)
	for _, o := range w.sortedObjects() {
		base := "TypedDict"
		if required := o.writeClass(&b, "_"+o.name, base, false); required {
			base = "_" + o.name
		}
		o.writeClass(&b, o.name, base, true)
	}
	return b.Bytes()
}

// writeClass writes a class with the required or the optional fields. It returns false if there are
// no required ones.
func (o *wireObject) writeClass(b *bytes.Buffer, name, base string, optional bool) bool {
	var lines []string
	for _, f := range o.fields {
		if f.optional == optional {
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
	if pythonKeywords[f.name] {
		line = "    # " + strings.TrimSpace(line) + " (a Python keyword: read it by its name in brackets)"
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
	}
	return map[basicKind]string{text: "str", integer: "int", number: "float", boolean: "bool", anyValue: "Any"}[f.basic]
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
		fmt.Fprintf(&b, "export interface %s {\n", o.name)
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
	w.typescriptTable(&b, "Methods", "Methods with their params and results.", rpcMethods)
	w.typescriptTable(&b, "Notifications", "Notifications that the daemon sends.", rpcNotifications)
	w.typescriptTable(&b, "Requests", "Requests that the daemon sends, with their results.", rpcRequests)
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
	}
	return map[basicKind]string{text: "string", integer: "number", number: "number", boolean: "boolean", anyValue: "unknown"}[f.basic]
}
