package reply

import (
	"bytes"
	"context"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/systempath"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

func newDrawingEvent(svg string) timeline.Event {
	return timeline.Event{Body: timeline.Display{Data: map[string][]byte{mimeSVG: []byte(svg)}}}
}

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="20" height="10">`

func TestRasterizeDrawings(t *testing.T) {
	t.Run("converts a drawing to an image, but shows no files", func(t *testing.T) {
		if systempath.Find(svgConverter) == "" {
			t.Skip("rsvg-convert is not installed: install it with apt-get install librsvg2-bin")
		}
		// No drawing may show this file.
		red := filepath.Join(t.TempDir(), "red.svg")
		if err := os.WriteFile(red, []byte(svgHead+`<rect width="20" height="10" fill="#f00"/></svg>`), 0o600); err != nil {
			t.Fatal(err)
		}
		entities := `<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa">`
		for c := 'b'; c < 'l'; c++ {
			entities += "<!ENTITY " + string(c) + ` "` + strings.Repeat("&"+string(c-1)+";", 10) + `">`
		}
		given := []timeline.Event{
			newDrawingEvent(svgHead + `<rect width="20" height="10" fill="#00f"/></svg>`),
			newDrawingEvent(svgHead + `<image href="file://` + red + `" xlink:href="file://` + red + `" width="20" height="10"/></svg>`),
			newDrawingEvent(entities + `]>` + svgHead + `<text>&k;</text></svg>`),
			newDrawingEvent(`<svg xmlns="http://www.w3.org/2000/svg" width="100000" height="100000"/>`),
			newDrawingEvent(`<svg xmlns="http://www.w3.org/2000/svg" width="1e9" height="1e9"/>`),
			newDrawingEvent(strings.Repeat("<g>", 100_000)),
			newDrawingEvent(`no drawing`),
			{Silent: true, Body: timeline.Display{Data: map[string][]byte{mimeSVG: []byte(svgHead + "</svg>")}}},
			{Body: timeline.Notice{Message: "n"}},
		}
		got := rasterizeDrawings(t.Context(), given)
		at := func(i int) (color.Color, bool) {
			t.Helper()
			_, data, ok := got[i].Body.(timeline.Display).ImageData()
			if !ok {
				return nil, false
			}
			p, err := png.Decode(bytes.NewReader(data))
			if err != nil || p.Bounds().Dx() != 20 || p.Bounds().Dy() != 10 {
				t.Fatalf("drawing %d: %v", i, err)
			}
			return p.At(10, 5), true
		}
		is := func(c, want color.Color) bool { return color.NRGBAModel.Convert(c) == color.NRGBAModel.Convert(want) }
		if c, ok := at(0); !ok || !is(c, color.NRGBA{B: 255, A: 255}) {
			t.Errorf("got %v, %v", c, ok)
		}
		if c, ok := at(1); ok && is(c, color.NRGBA{R: 255, A: 255}) {
			t.Errorf("a drawing shows a file: %v", c)
		}
		for i := 2; i < len(given)-1; i++ {
			if _, ok := at(i); ok {
				t.Errorf("drawing %d was converted", i)
			}
		}
		if _, _, ok := given[0].Body.(timeline.Display).ImageData(); ok {
			t.Error("the event itself was changed")
		}
	})

	// Many endless drawings together take no longer than a reply may.
	t.Run("leaves drawings that take too long as text", func(t *testing.T) {
		if systempath.Find(svgConverter) == "" {
			t.Skip("rsvg-convert is not installed: install it with apt-get install librsvg2-bin")
		}
		var given []timeline.Event
		for range 15 {
			given = append(given, newDrawingEvent(newNestedSVG("g", `<use xlink:href="#%s"/>`)), newDrawingEvent(newNestedSVG("marker", `<path d="M0 0h1h1h1" marker-mid="url(#%s)"/>`)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		got := render.Events(rasterizeDrawings(ctx, given), nil).Text()
		if took := time.Since(start); took > time.Minute {
			t.Errorf("got %v, want less", took)
		}
		if strings.Contains(got, "[image: ") || !strings.HasPrefix(got, "[image/svg+xml, ") || !strings.Contains(got, "these 2 lines 15 times in all") {
			t.Errorf("got %q", got)
		}
	})

	// The code that made the drawing may be able to write a directory on PATH.
	t.Run("runs no program from PATH", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{svgConverter, "sh"} {
			if err := testexec.WriteExecutable(filepath.Join(dir, name), []byte("#!/bin/sh\n>"+dir+"/ran\n")); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
		rasterizeDrawings(t.Context(), []timeline.Event{newDrawingEvent(svgHead + "</svg>")})
		if _, err := os.Stat(dir + "/ran"); err == nil {
			t.Error("a program on PATH ran")
		}
	})

	t.Run("leaves a drawing as text without rsvg-convert", func(t *testing.T) {
		defer func(all []string) { systempath.Directories = all }(systempath.Directories)
		systempath.Directories = []string{t.TempDir()}
		got := render.Events(rasterizeDrawings(t.Context(), []timeline.Event{newDrawingEvent(svgHead + "</svg>")}), nil).Text()
		if !strings.HasPrefix(got, "[image/svg+xml, ") {
			t.Errorf("got %q", got)
		}
	})
}

// newNestedSVG returns a drawing with 10^10 elements.
func newNestedSVG(element, use string) string {
	svg := svgHead + "<" + element + ` id="a"><path d="M0 0h1"/></` + element + ">"
	for c := 'b'; c < 'l'; c++ {
		svg += "<" + element + ` id="` + string(c) + `">` + strings.Repeat(fmt.Sprintf(use, string(c-1)), 10) + "</" + element + ">"
	}
	return svg + fmt.Sprintf(use, "k") + "</svg>"
}
