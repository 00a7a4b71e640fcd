package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The JSON of charts is large and deep. A model needs one line of it, which says what is shown
// and how much of it.

// maxChart bounds, in bytes, the JSON that is read for a description.
const maxChart = 16 << 20

// describeChart returns a line about the chart in a bundle, or "".
func describeChart(data map[string][]byte) string {
	for mime, spec := range data {
		var say func(map[string]any) string
		library := ""
		switch {
		case mime == "application/vnd.plotly.v1+json":
			library, say = "plotly", describePlotly
		case strings.HasPrefix(mime, "application/vnd.vegalite."):
			library, say = "altair", describeVega
		case strings.HasPrefix(mime, "application/vnd.vega."):
			library, say = "vega", describeVega
		case mime == "application/vnd.bokehjs_exec.v0+json", mime == "application/vnd.bokeh.v3+json":
			library, say = "bokeh", describeBokeh
		default:
			continue
		}
		var parsed map[string]any
		if len(spec) > maxChart || json.Unmarshal(spec, &parsed) != nil {
			return library + " chart, " + ByteCount(int64(len(spec)))
		}
		return library + " chart: " + say(parsed)
	}
	return ""
}

// describePlotly: "scatter, 1,000 points, "title", x "a", y "b"".
func describePlotly(figure map[string]any) string {
	var kinds []string
	points := 0
	for _, t := range list(figure, "data") {
		trace, _ := t.(map[string]any)
		kind := text(trace, "type")
		if kind == "" {
			kind = "scatter" // plotly's default
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		points += traceLength(trace)
	}
	layout := object(figure, "layout")
	parts := chartParts(kinds, points, "point", titleOf(layout["title"]))
	parts = append(parts, axis("x", titleOf(object(layout, "xaxis")["title"])), axis("y", titleOf(object(layout, "yaxis")["title"])))
	return join(parts)
}

// traceLength is the number of points of a trace: of its longest array.
func traceLength(trace map[string]any) int {
	most := 0
	for _, name := range []string{"x", "y", "z", "values", "labels", "lat", "lon", "r", "theta", "open"} {
		switch v := trace[name].(type) {
		case []any:
			most = max(most, len(v))
		case map[string]any: // an array in base64, as plotly 6 writes it
			most = max(most, typedLength(v))
		}
	}
	return most
}

// typedLength is the length of an array that is written as {"dtype": "f8", "bdata": base64}.
func typedLength(v map[string]any) int {
	data, dtype := text(v, "bdata"), text(v, "dtype")
	size := 0
	if len(dtype) > 0 {
		size = int(dtype[len(dtype)-1] - '0')
	}
	if size < 1 || size > 8 {
		return 0
	}
	return (len(data)/4*3 - strings.Count(data, "=")) / size
}

// describeVega describes a chart of Vega-Lite or Vega.
func describeVega(spec map[string]any) string {
	var kinds []string
	collectMarks(spec, &kinds, 0)
	rows := 0
	for _, set := range object(spec, "datasets") {
		values, _ := set.([]any)
		rows += len(values)
	}
	rows += len(list(object(spec, "data"), "values"))
	encoding := object(spec, "encoding")
	parts := chartParts(kinds, rows, "row", titleOf(spec["title"]))
	return join(append(parts, axis("x", channel(encoding, "x")), axis("y", channel(encoding, "y"))))
}

// collectMarks finds the marks of a chart and of those inside it.
func collectMarks(spec map[string]any, kinds *[]string, depth int) {
	mark := text(spec, "mark")
	if mark == "" {
		mark = text(object(spec, "mark"), "type")
	}
	if mark != "" && !slices.Contains(*kinds, mark) && len(*kinds) < 8 {
		*kinds = append(*kinds, mark)
	}
	if depth > 4 {
		return
	}
	for _, name := range []string{"layer", "hconcat", "vconcat", "concat"} {
		for _, inner := range list(spec, name) {
			if inner, ok := inner.(map[string]any); ok {
				collectMarks(inner, kinds, depth+1)
			}
		}
	}
	if inner := object(spec, "spec"); inner != nil {
		collectMarks(inner, kinds, depth+1)
	}
}

// channel names what an encoding shows: its title, or else its field.
func channel(encoding map[string]any, name string) string {
	c := object(encoding, name)
	if title := titleOf(c["title"]); title != "" {
		return title
	}
	return text(c, "field")
}

// describeBokeh describes a document of Bokeh, whose models are in one list or nested.
func describeBokeh(spec map[string]any) string {
	b, _ := json.Marshal(spec)
	var kinds []string
	for _, glyph := range []string{"Line", "Scatter", "Circle", "VBar", "HBar", "Quad", "Patch", "Image", "Wedge"} {
		if bytes.Contains(b, []byte(`"name":"`+glyph+`"`)) || bytes.Contains(b, []byte(`"type":"`+glyph+`"`)) {
			kinds = append(kinds, strings.ToLower(glyph))
		}
	}
	var root map[string]any
	if roots := list(object(spec, "doc"), "roots"); len(roots) > 0 {
		root, _ = roots[0].(map[string]any)
	}
	shown := object(root, "attributes")
	parts := chartParts(kinds, 0, "point", text(object(object(shown, "title"), "attributes"), "text"))
	for _, side := range [][2]string{{"x", "below"}, {"y", "left"}} {
		for _, one := range list(shown, side[1]) {
			a, _ := one.(map[string]any)
			parts = append(parts, axis(side[0], text(object(a, "attributes"), "axis_label")))
		}
	}
	return join(parts)
}

func chartParts(kinds []string, n int, unit, title string) []string {
	parts := []string{strings.Join(kinds, " + ")}
	if n > 0 {
		parts = append(parts, count(n, unit))
	}
	if title != "" {
		parts = append(parts, fmt.Sprintf("%q", short(title)))
	}
	return parts
}

func axis(name, title string) string {
	if title == "" {
		return ""
	}
	return fmt.Sprintf("%s %q", name, short(title))
}

func join(parts []string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return "empty"
	}
	return strings.Join(parts, ", ")
}

// titleOf reads a title that is a text, or an object with one.
func titleOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		return text(v, "text")
	}
	return ""
}

func text(v map[string]any, name string) string { s, _ := v[name].(string); return s }

func list(v map[string]any, name string) []any { l, _ := v[name].([]any); return l }

func object(v map[string]any, name string) map[string]any { o, _ := v[name].(map[string]any); return o }

// short bounds a title.
func short(title string) string {
	if r := []rune(title); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return title
}
