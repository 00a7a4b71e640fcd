package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ContentType is the type of a text of this package over HTTP.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// The types of metrics.
const counter, gauge, histogram = "counter", "gauge", "histogram"

// A textWriter writes the text format of Prometheus.
type textWriter struct{ strings.Builder }

// family starts a metric.
func (w *textWriter) family(name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, helpEscaper.Replace(help), name, kind)
}

// sample writes one value. labels are pairs of a name and a value.
func (w *textWriter) sample(name string, value float64, labels ...string) {
	w.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		separator := ","
		if i == 0 {
			separator = "{"
		}
		fmt.Fprintf(w, `%s%s="%s"`, separator, labels[i], labelEscaper.Replace(strings.ToValidUTF8(labels[i+1], "\ufffd")))
	}
	if len(labels) > 0 {
		w.WriteByte('}')
	}
	w.WriteString(" " + formatValue(value) + "\n")
}

// The characters that the format escapes.
var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// formatValue returns a number as the format writes it.
func formatValue(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
