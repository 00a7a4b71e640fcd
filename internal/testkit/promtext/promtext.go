// Package promtext parses the text format of Prometheus, version 0.0.4, and is stricter than
// Prometheus itself. It starts no goroutines.
package promtext

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Family is one metric with all its samples.
type Family struct {
	Name, Type, Help string
	Samples          []Sample
}

// A Sample is one value.
type Sample struct {
	Name   string // with the suffix of a histogram
	Labels map[string]string
	Value  float64
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// Parse parses a text. Each family must have HELP, TYPE and then its samples, without other lines
// between them. Samples must be unique, counters must be called _total, and the buckets of a
// histogram must be complete and grow.
func Parse(text string) (map[string]*Family, error) {
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line has no end")
	}
	families := make(map[string]*Family)
	seen := make(map[string]bool) // samples
	var now *Family
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var err error
		switch {
		case strings.HasPrefix(line, "# HELP "):
			name, help, _ := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
			now = &Family{Name: name, Help: help}
			if families[name] != nil || !metricName.MatchString(name) || help == "" {
				err = fmt.Errorf("the family %q is wrong or repeated", name)
			}
			families[name] = now
		case strings.HasPrefix(line, "# TYPE "):
			name, kind, _ := strings.Cut(strings.TrimPrefix(line, "# TYPE "), " ")
			if now == nil || name != now.Name || now.Type != "" || len(now.Samples) > 0 || !slices.Contains([]string{"counter", "gauge", "histogram"}, kind) {
				err = fmt.Errorf("TYPE is out of place")
				break
			}
			now.Type = kind
		default:
			err = addSample(now, line, seen)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
	}
	for _, f := range families {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return families, nil
}

// addSample adds the sample of a line to its family.
func addSample(f *Family, line string, seen map[string]bool) error {
	s, err := parseSample(line)
	if err != nil {
		return err
	}
	if f == nil || f.Type == "" {
		return fmt.Errorf("a sample without a family")
	}
	suffix, ok := strings.CutPrefix(s.Name, f.Name)
	if !ok || suffix != "" && (f.Type != "histogram" || !slices.Contains([]string{"_bucket", "_sum", "_count"}, suffix)) || suffix == "" && f.Type == "histogram" {
		return fmt.Errorf("a sample of another family")
	}
	key := s.Name + keyOf(s.Labels)
	if seen[key] {
		return fmt.Errorf("the sample is repeated")
	}
	seen[key] = true
	f.Samples = append(f.Samples, s)
	return nil
}

// parseSample parses a line such as name{label="value"} 1.
func parseSample(line string) (Sample, error) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 || !metricName.MatchString(line[:end]) {
		return Sample{}, fmt.Errorf("no name")
	}
	s := Sample{Name: line[:end], Labels: make(map[string]string)}
	rest := line[end:]
	if rest[0] == '{' {
		rest = rest[1:]
		for {
			name, after, ok := strings.Cut(rest, `="`)
			if !ok || !labelName.MatchString(name) {
				return s, fmt.Errorf("no label")
			}
			value, after, ok := cutQuoted(after)
			if !ok || s.Labels[name] != "" {
				return s, fmt.Errorf("the label %q is wrong", name)
			}
			s.Labels[name], rest = value, after
			if rest, ok = strings.CutPrefix(after, ","); !ok {
				break
			}
		}
		if !strings.HasPrefix(rest, "}") {
			return s, fmt.Errorf("the labels have no end")
		}
		rest = rest[1:]
	}
	number, ok := strings.CutPrefix(rest, " ")
	value, err := strconv.ParseFloat(number, 64)
	if s.Value = value; !ok || err != nil || strings.ContainsAny(number, "_xXpP ") || math.IsNaN(value) {
		return s, fmt.Errorf("no number")
	}
	return s, nil
}

// cutQuoted returns the text up to an unescaped quotation mark, and what follows it.
func cutQuoted(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
			c, known := map[byte]byte{'n': '\n', '\\': '\\', '"': '"'}[text[i]]
			if !known {
				return "", "", false
			}
			b.WriteByte(c)
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", false
}

// keyOf returns labels as one text.
func keyOf(labels map[string]string) string {
	var all []string
	for name, value := range labels {
		all = append(all, fmt.Sprintf("%s=%q", name, value))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// check checks a family as a whole.
func (f *Family) check() error {
	if f.Type == "" {
		return fmt.Errorf("no TYPE")
	}
	if (f.Type == "counter") != strings.HasSuffix(f.Name, "_total") {
		return fmt.Errorf("a %s must not have this name", f.Type)
	}
	if f.Type != "histogram" {
		return nil
	}
	type series struct {
		bound, count, total float64
		hasSum              bool
	}
	all := make(map[string]*series)
	for _, s := range f.Samples {
		labels := make(map[string]string)
		for name, value := range s.Labels {
			if name != "le" {
				labels[name] = value
			}
		}
		key := keyOf(labels)
		if all[key] == nil {
			all[key] = &series{bound: math.Inf(-1), total: -1}
		}
		one := all[key]
		switch strings.TrimPrefix(s.Name, f.Name) {
		case "_bucket":
			bound, err := strconv.ParseFloat(s.Labels["le"], 64)
			if err != nil || bound <= one.bound || s.Value < one.count {
				return fmt.Errorf("the bucket %v does not follow the one before", s)
			}
			one.bound, one.count = bound, s.Value
		case "_sum":
			one.hasSum = true
		case "_count":
			one.total = s.Value
		}
	}
	for key, one := range all {
		if !math.IsInf(one.bound, 1) || one.total != one.count || !one.hasSum {
			return fmt.Errorf("the histogram %s is not complete: %+v", key, *one)
		}
	}
	return nil
}

// Value returns the value of a sample whose labels, pairs of a name and a value, are exactly these.
func (f *Family) Value(labels ...string) (float64, bool) {
	if f == nil {
		return 0, false
	}
	want := make(map[string]string)
	for i := 0; i < len(labels); i += 2 {
		want[labels[i]] = labels[i+1]
	}
	for _, s := range f.Samples {
		if keyOf(s.Labels) == keyOf(want) {
			return s.Value, true
		}
	}
	return 0, false
}
