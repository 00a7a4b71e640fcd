package describe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// The JSON of charts is large and deep. A model needs one line with the kind of chart, its size and
// its titles.

// maxChartBytes bounds, in bytes, the JSON that is read for a description.
const maxChartBytes = 16 << 20

// Chart returns a line about the chart in a bundle, or "".
func Chart(data map[string][]byte) string {
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
		if len(spec) > maxChartBytes || json.Unmarshal(spec, &parsed) != nil {
			return library + " chart, " + text.Bytes(int64(len(spec)))
		}
		return library + " chart: " + say(parsed)
	}
	return ""
}

// describePlotly returns a description such as: scatter, 1,000 points, "title", x "a", y "b".
func describePlotly(figure map[string]any) string {
	var kinds []string
	points := 0
	for _, t := range arrayField(figure, "data") {
		trace, _ := t.(map[string]any)
		kind := jsonText(trace, "type")
		if kind == "" {
			kind = "scatter" // plotly's default
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		points += traceLength(trace)
	}
	layout := objectField(figure, "layout")
	parts := chartParts(kinds, points, "point", titleOf(layout["title"]))
	parts = append(parts, axisTitle("x", titleOf(objectField(layout, "xaxis")["title"])), axisTitle("y", titleOf(objectField(layout, "yaxis")["title"])))
	return joinWords(parts)
}

// traceLength returns the number of points of a trace: the length of its longest array.
func traceLength(trace map[string]any) int {
	most := 0
	for _, name := range []string{"x", "y", "z", "values", "labels", "lat", "lon", "r", "theta", "open"} {
		switch v := trace[name].(type) {
		case []any:
			most = max(most, len(v))
		case map[string]any: // a base64 array, as in plotly 6
			most = max(most, typedLength(v))
		}
	}
	return most
}

// typedLength returns the length of an array that is written as {"dtype": "f8", "bdata":
// base64}.
func typedLength(v map[string]any) int {
	data, dtype := jsonText(v, "bdata"), jsonText(v, "dtype")
	size := 0
	if len(dtype) > 0 {
		size = int(dtype[len(dtype)-1] - '0')
	}
	if size < 1 || size > 8 {
		return 0
	}
	return (len(data)/4*3 - strings.Count(data, "=")) / size
}

// describeVega describes a Vega-Lite or Vega chart.
func describeVega(spec map[string]any) string {
	var kinds []string
	collectMarks(spec, &kinds, 0)
	rows := 0
	for _, set := range objectField(spec, "datasets") {
		values, _ := set.([]any)
		rows += len(values)
	}
	rows += len(arrayField(objectField(spec, "data"), "values"))
	encoding := objectField(spec, "encoding")
	parts := chartParts(kinds, rows, "row", titleOf(spec["title"]))
	return joinWords(append(parts, axisTitle("x", vegaChannel(encoding, "x")), axisTitle("y", vegaChannel(encoding, "y"))))
}

// collectMarks collects the marks of a chart and of its nested charts.
func collectMarks(spec map[string]any, kinds *[]string, depth int) {
	mark := jsonText(spec, "mark")
	if mark == "" {
		mark = jsonText(objectField(spec, "mark"), "type")
	}
	if mark != "" && !slices.Contains(*kinds, mark) && len(*kinds) < 8 {
		*kinds = append(*kinds, mark)
	}
	if depth > 4 {
		return
	}
	for _, name := range []string{"layer", "hconcat", "vconcat", "concat"} {
		for _, inner := range arrayField(spec, name) {
			if inner, ok := inner.(map[string]any); ok {
				collectMarks(inner, kinds, depth+1)
			}
		}
	}
	if inner := objectField(spec, "spec"); inner != nil {
		collectMarks(inner, kinds, depth+1)
	}
}

// vegaChannel returns what an encoding shows: its title or, without one, its field.
func vegaChannel(encoding map[string]any, name string) string {
	c := objectField(encoding, name)
	if title := titleOf(c["title"]); title != "" {
		return title
	}
	return jsonText(c, "field")
}

// describeBokeh describes a Bokeh document, whose models are in one list or nested.
func describeBokeh(spec map[string]any) string {
	b, _ := json.Marshal(spec)
	var kinds []string
	for _, glyph := range []string{"Line", "Scatter", "Circle", "VBar", "HBar", "Quad", "Patch", "Image", "Wedge"} {
		if bytes.Contains(b, []byte(`"name":"`+glyph+`"`)) || bytes.Contains(b, []byte(`"type":"`+glyph+`"`)) {
			kinds = append(kinds, strings.ToLower(glyph))
		}
	}
	var root map[string]any
	if roots := arrayField(objectField(spec, "doc"), "roots"); len(roots) > 0 {
		root, _ = roots[0].(map[string]any)
	}
	shown := objectField(root, "attributes")
	parts := chartParts(kinds, 0, "point", jsonText(objectField(objectField(shown, "title"), "attributes"), "text"))
	for _, side := range [][2]string{{"x", "below"}, {"y", "left"}} {
		for _, one := range arrayField(shown, side[1]) {
			a, _ := one.(map[string]any)
			parts = append(parts, axisTitle(side[0], jsonText(objectField(a, "attributes"), "axis_label")))
		}
	}
	return joinWords(parts)
}

func chartParts(kinds []string, n int, unit, title string) []string {
	parts := []string{strings.Join(kinds, " + ")}
	if n > 0 {
		parts = append(parts, text.Count(n, unit))
	}
	if title != "" {
		parts = append(parts, fmt.Sprintf("%q", text.Shorten(title, maxTitleChars)))
	}
	return parts
}

func axisTitle(name, title string) string {
	if title == "" {
		return ""
	}
	return fmt.Sprintf("%s %q", name, text.Shorten(title, maxTitleChars))
}

func joinWords(parts []string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return "empty"
	}
	return strings.Join(parts, ", ")
}

// titleOf reads a title that is either text or an object with one.
func titleOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		return jsonText(v, "text")
	}
	return ""
}

func jsonText(v map[string]any, name string) string { s, _ := v[name].(string); return s }

func arrayField(v map[string]any, name string) []any { l, _ := v[name].([]any); return l }

func objectField(v map[string]any, name string) map[string]any {
	o, _ := v[name].(map[string]any)
	return o
}

// maxTitleChars bounds a title, in characters.
const maxTitleChars = 80
