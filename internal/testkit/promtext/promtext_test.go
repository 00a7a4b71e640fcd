package promtext_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/promtext"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const head = "# HELP a_total A.\n# TYPE a_total counter\n"
	families, err := promtext.Parse(head + "a_total{x=\"q\\\"\\\\\\n\",y=\"\"} 1e+06\n")
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := families["a_total"].Value("x", "q\"\\\n", "y", ""); !ok || v != 1e6 {
		t.Errorf("got %v, %v", v, ok)
	}
	const buckets = "# HELP h H.\n# TYPE h histogram\n"
	for name, text := range map[string]string{
		"no end of line":       head + "a_total 1",
		"no type":              "# HELP a_total A.\na_total 1\n",
		"another family":       head + "b_total 1\n",
		"a repeated sample":    head + "a_total 1\na_total 2\n",
		"an escape":            head + "a_total{x=\"\\t\"} 1\n",
		"no number":            head + "a_total one\n",
		"an empty line":        head + "\na_total 1\n",
		"a name":               "# HELP a A.\n# TYPE a counter\na 1\n",
		"a repeated family":    head + head,
		"no infinite bucket":   buckets + "h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
		"buckets that shrink":  buckets + "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
		"another count":        buckets + "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n",
		"a histogram's sample": buckets + "h 1\n",
	} {
		if _, err := promtext.Parse(text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
