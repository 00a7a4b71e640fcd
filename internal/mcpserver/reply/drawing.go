package reply

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

	// A drawing is rasterized by another program, within these bounds. A few bytes of SVG can ask
	// for endless work.
	drawingTimeout     = 5 * time.Second
	allDrawingsTimeout = 10 * time.Second // for all drawings of one reply
	maxDrawingBytes    = 4 << 20          // of SVG
	maxRenderMemoryKB  = "262144"         // of address space
	maxRenderedBytes   = 16 << 20         // of the image

	svgConverter = "rsvg-convert"
)

// rasterizeDrawings adds a bitmap to each drawing that has none, if the program rsvg-convert is
// installed. Otherwise, and beyond the bounds, the drawing stays a line of text. It handles the
// newest maxImages drawings.
func rasterizeDrawings(ctx context.Context, events []timeline.Event) []timeline.Event {
	program, ulimit := "", ""
	var out []timeline.Event
	ctx, cancel := context.WithTimeout(ctx, allDrawingsTimeout)
	defer cancel()
	done := 0
	for i := len(events) - 1; i >= 0 && done < maxImages; i-- {
		d, ok := events[i].Body.(timeline.Display)
		svg := d.Data[mimeSVG]
		if !ok || len(svg) == 0 || len(svg) > maxDrawingBytes || hasImage(d) || events[i].IsUnseen() {
			continue
		}
		if out == nil {
			if program, ulimit = systempath.Find(svgConverter), systempath.Find("sh"); program == "" || ulimit == "" {
				return events
			}
			out = append(out, events...)
		}
		done++
		if png, err := rasterizeSVG(ctx, ulimit, program, svg); err == nil {
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

// rasterizeSVG converts a drawing to PNG. The program reads it from a pipe, so that the drawing
// cannot refer to files: librsvg resolves names relative to the drawing's own path, which a pipe
// does not have. It has no network access.
func rasterizeSVG(ctx context.Context, shell, program string, svg []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, drawingTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, shell, "-c", `ulimit -v "$1" && exec "$2" --format=png`, "sh", maxRenderMemoryKB, program)
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

// A boundedBuffer is a buffer that fails beyond maxRenderedBytes.
type boundedBuffer struct{ b []byte }

var errImageTooLarge = errors.New("the image is too large")

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.b)+len(p) > maxRenderedBytes {
		return 0, errImageTooLarge
	}
	b.b = append(b.b, p...)
	return len(p), nil
}
