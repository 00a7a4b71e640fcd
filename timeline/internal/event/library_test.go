package event

import (
	"slices"
	"strings"
	"testing"
)

func TestDisplay_Libraries(t *testing.T) {
	t.Parallel()
	const kind = "application/vnd.plotly.v1+json"

	t.Run("names the files of a chart's library", func(t *testing.T) {
		t.Parallel()
		nine := `"a"` + strings.Repeat(`,"a"`, 8)
		for meta, want := range map[string][]string{
			`{"` + kind + `":{"turnstone_library":["/a","/b"]}}`:    {"/a", "/b"},
			`{"` + kind + `":{"turnstone_library":"/a"}}`:           nil,
			`{"` + kind + `":{"turnstone_library":[1]}}`:            nil,
			`{"` + kind + `":{"turnstone_library":[` + nine + `]}}`: nil,
			`{"text/html":{"turnstone_library":["/a"]}}`:            nil,
			`{"` + kind + `":7}`:                                    nil,
			`[]`:                                                    nil,
			``:                                                      nil,
		} {
			if got := (Display{Meta: []byte(meta)}).LibraryFiles(kind); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", meta, got, want)
			}
		}
	})

	t.Run("leaves local paths out of portable metadata", func(t *testing.T) {
		t.Parallel()
		for meta, want := range map[string]string{
			`{"` + kind + `":{"turnstone_library":["/a"]}}`:                                  `{}`,
			`{"` + kind + `":{"turnstone_library":["/a"],"b":1},"image/png":{"width":1.50}}`: `{"` + kind + `":{"b":1},"image/png":{"width":1.50}}`,
			`{"image/png": {"width":1}}`:                                                     `{"image/png": {"width":1}}`,
			`{"isolated":true}`:                                                              `{"isolated":true}`,
			`null`:                                                                           `{}`,
			`{`:                                                                              `{}`,
			``:                                                                               `{}`,
		} {
			if got := string(Display{Meta: []byte(meta)}.PortableMeta()); got != want {
				t.Errorf("%s: got %s, want %s", meta, got, want)
			}
		}
	})
}
