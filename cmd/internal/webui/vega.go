package webui

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	"github.com/turnstone-repl/turnstone/session"
)

// isVega reports whether a library is part of the program. No package of Python or R has it as a file.
func isVega(library string) bool { return library == "vega" || library == "vega-lite" }

// vegaScripts returns the scripts that draw charts of Vega and Vega-Lite, by name.
func (c *chartScripts) vegaScripts() map[string]chartlib.Script {
	c.readVega.Do(func() {
		c.vega = make(map[string]chartlib.Script)
		for _, name := range []string{"vega", "vega-lite", "vega-interpreter"} {
			code, version := readVendored(name)
			if name == "vega-interpreter" {
				code = interpreterScript(code)
			}
			c.vega[name] = chartlib.Script{Release: chartlib.Release{Name: name, Version: version, Digest: chartlib.DigestOf(code)}, Code: code}
		}
	})
	return c.vega
}

// readVendored returns a compressed script of static/vendor, and its version in the list of sources.
func readVendored(name string) (code []byte, version string) {
	compressed, _ := staticFiles.ReadFile("static/vendor/" + name + ".js.gz") // a test reads all files
	if z, err := gzip.NewReader(bytes.NewReader(compressed)); err == nil {
		code, _ = io.ReadAll(z)
	}
	list, _ := staticFiles.ReadFile("static/vendor/SOURCES")
	_, rest, _ := strings.Cut(string(list), "\n"+name+".js "+name+"@")
	version, _, _ = strings.Cut(rest, " ")
	return code, version
}

// interpreterScript makes a script of the interpreter, which is published as a module only. The module
// imports parts of vega, and the frame of a chart has no names of modules.
func interpreterScript(module []byte) []byte {
	return []byte(strings.NewReplacer(
		"import { ascending, isString, DisallowedObjectProperties } from 'vega-util';",
		"(() => { 'use strict'; const { ascending, isString, DisallowedObjectProperties } = vega;",
		"export { expression as expressionInterpreter };", "vega.expressionInterpreter = expression; })();",
	).Replace(string(module)))
}

// vegaLibrary returns the scripts of the library vega or vega-lite in the order of loading.
func (c *chartScripts) vegaLibrary(library string) []chartlib.Release {
	all := c.vegaScripts()
	if library == "vega" {
		return []chartlib.Release{all["vega"].Release, all["vega-interpreter"].Release}
	}
	return []chartlib.Release{all["vega"].Release, all["vega-lite"].Release, all["vega-interpreter"].Release}
}

// checkVega returns an error for a chart whose data would be loaded, or read by compiled code. isData is
// whether spec describes data.
func checkVega(spec any, isData bool) error {
	switch spec := spec.(type) {
	case []any:
		for _, one := range spec {
			if err := checkVega(one, isData); err != nil {
				return err
			}
		}
	case map[string]any:
		if isData {
			if err := checkVegaData(spec); err != nil {
				return err
			}
		}
		for name, inner := range spec {
			if name == "values" || name == "datasets" || name == "usermeta" { // data itself, which may have any names
				continue
			}
			if err := checkVega(inner, name == "data"); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkVegaData returns an error for one source of data that cannot be read in the frame of a chart.
func checkVegaData(source map[string]any) error {
	if at, ok := source["url"]; ok {
		shown, _ := json.Marshal(at)
		return session.Errorf(session.KindUnsupported, "its data is at the address %.100s, and nothing is loaded here; put the data itself into the chart", shown)
	}
	format, _ := source["format"].(map[string]any)
	if kind, _ := format["type"].(string); slices.Contains([]string{"csv", "tsv", "dsv"}, kind) {
		return session.Errorf(session.KindUnsupported, "reading data of the format %s compiles code from text, which is not allowed here; give the data as records", kind)
	}
	return nil
}
