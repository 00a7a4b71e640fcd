package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/systempath"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	mimeSVG = "image/svg+xml"

	// A drawing is made a picture by another program, within these bounds: SVG is a language
	// in which a few bytes can ask for endless work.
	drawingTime    = 5 * time.Second
	drawingsTime   = 10 * time.Second // of all in one reply
	maxDrawing     = 4 << 20          // bytes of SVG
	maxDrawingKB   = "262144"         // of address space
	maxDrawingData = 16 << 20         // bytes of the picture

	converter = "rsvg-convert"
)

// pictured returns the events with a bitmap beside each drawing that has none, where the system
// has the program rsvg-convert. Without it, and beyond the bounds, the drawing stays a line of
// text. It keeps to maxImages drawings, the newest.
func pictured(ctx context.Context, events []timeline.Event) []timeline.Event {
	program, ulimit := "", ""
	var out []timeline.Event
	ctx, cancel := context.WithTimeout(ctx, drawingsTime)
	defer cancel()
	done := 0
	for i := len(events) - 1; i >= 0 && done < maxImages; i-- {
		d, ok := events[i].Body.(timeline.Display)
		svg := d.Data[mimeSVG]
		if !ok || len(svg) == 0 || len(svg) > maxDrawing || hasPicture(d) || events[i].IsUnseen() {
			continue
		}
		if out == nil {
			if program, ulimit = systempath.Find(converter), systempath.Find("sh"); program == "" || ulimit == "" {
				return events
			}
			out = append(out, events...)
		}
		done++
		if png, err := rasterize(ctx, ulimit, program, svg); err == nil {
			d.Data = maps.Clone(d.Data)
			d.Data["image/png"] = png
			out[i].Body = d
		}
	}
	if out == nil {
		return events
	}
	return out
}

// rasterize makes a PNG of a drawing. The program reads it from a pipe, so that nothing in it can
// name a file: librsvg resolves names against the drawing's own place, which a pipe has not. It
// knows no network.
func rasterize(ctx context.Context, shell, program string, svg []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, drawingTime)
	defer cancel()
	c := exec.CommandContext(ctx, shell, "-c", `ulimit -v "$1" && exec "$2" --format=png`, "sh", maxDrawingKB, program)
	c.Env = []string{"PATH=" + strings.Join(systempath.Directories, ":"), "LC_ALL=C.UTF-8"}
	c.Dir = os.TempDir()
	c.Stdin = bytes.NewReader(svg)
	var png boundedBuffer
	c.Stdout = &png
	c.WaitDelay = time.Second
	if err := c.Run(); err != nil {
		return nil, err
	}
	return png.b, nil
}

// A boundedBuffer refuses what is beyond maxDrawingData.
type boundedBuffer struct{ b []byte }

var errDrawing = errors.New("the picture is too large")

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.b)+len(p) > maxDrawingData {
		return 0, errDrawing
	}
	b.b = append(b.b, p...)
	return len(p), nil
}
