package mcpserver

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"image"
	_ "image/gif" // a format that pictures come in
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/timeline"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // a format that pictures come in
)

const (
	// DefaultImageSide is the longest side of a picture in a reply, in pixels: more
	// than that, vision models shrink themselves, and charge for.
	DefaultImageSide = 1568

	// maxImages and maxImageBytes bound the pictures in one result. One more is
	// only named. In base64 they are 5 MB, which models' interfaces take.
	maxImages     = 8
	maxImageBytes = 3_750_000

	// maxNamed bounds the pictures that are named without being shown; the others
	// are counted.
	maxNamed = 8

	// maxPixels bounds the pictures that are decoded: four bytes each.
	maxPixels = 64 << 20

	// maxGallery bounds the picture files of one session, in bytes.
	maxGallery = 256 << 20
)

// shownImages are the kinds of pictures that models can see, and how their files
// are called.
var shownImages = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
}

// image adds a line about a picture, and the picture itself within the bounds. A
// picture that is not shown as it is, is kept in a file.
func (c *content) image(i *timeline.Image, side int, files *gallery) {
	about := "image"
	if i.Title != "" {
		about += fmt.Sprintf(" %q", i.Title)
	}
	shown, why := i, ""
	extension, visible := shownImages[i.MIME]
	size, _, err := image.DecodeConfig(bytes.NewReader(i.Data))
	if err == nil {
		about += fmt.Sprintf(", %d x %d", size.Width, size.Height)
	}
	switch {
	case !visible:
		extension, why = ".bin", fmt.Sprintf("it is %s, and not PNG", i.MIME)
	case err == nil && side > 0 && max(size.Width, size.Height) > side:
		if shown, err = shrink(i, size, side); err != nil {
			why = err.Error()
		}
	}
	switch {
	case why != "":
	case c.images >= maxImages:
		why = fmt.Sprintf("a reply holds %d", maxImages)
	case c.bytes+len(shown.Data) > maxImageBytes:
		why = timeline.ByteCount(int64(len(shown.Data))) + " are too much for this reply"
	}
	file := ""
	if why != "" || shown != i {
		file = files.keep(i.Data, extension)
	}
	if why != "" {
		about += ", not shown: " + why
	} else if shown != i {
		about += ", shown smaller"
	}
	if file != "" {
		about += "; whole in " + file
	}
	if why != "" {
		if c.named++; c.named <= maxNamed {
			c.line("[" + about + "]")
		}
		return
	}
	c.line("[" + about + "]")
	c.images++
	c.bytes += len(shown.Data)
	c.blocks = append(c.blocks, &mcp.ImageContent{Data: shown.Data, MIMEType: shown.MIME})
}

// morePictures tells of those that were not even named.
func (c *content) morePictures(files *gallery) {
	if c.named <= maxNamed {
		return
	}
	where := ""
	if files.dir != "" {
		where = "; in " + filepath.Join(files.dir, "image-*")
	}
	c.line(fmt.Sprintf("[%d more pictures, not shown%s]", c.named-maxNamed, where))
}

// shrink makes a picture small enough.
func shrink(i *timeline.Image, size image.Config, side int) (*timeline.Image, error) {
	if size.Width*size.Height > maxPixels {
		return nil, fmt.Errorf("more than %d million pixels", maxPixels>>20)
	}
	from, _, err := image.Decode(bytes.NewReader(i.Data))
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	longest := max(size.Width, size.Height)
	to := image.NewRGBA(image.Rect(0, 0, max(1, size.Width*side/longest), max(1, size.Height*side/longest)))
	draw.BiLinear.Scale(to, to.Bounds(), from, from.Bounds(), draw.Src, nil)
	var b bytes.Buffer
	mime := "image/png"
	if i.MIME == "image/jpeg" {
		mime = i.MIME
		err = jpeg.Encode(&b, to, &jpeg.Options{Quality: 90})
	} else {
		err = png.Encode(&b, to)
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot be made smaller: %w", err)
	}
	return &timeline.Image{MIME: mime, Data: b.Bytes()}, nil
}

// A gallery keeps pictures in files of a session, which go with it.
type gallery struct {
	dir  string // "" keeps nothing
	most int    // bytes; 0 means maxGallery

	mu    sync.Mutex
	files []kept // guarded by mu; oldest first
	bytes int    // guarded by mu; of files
}

type kept struct {
	path  string
	bytes int
}

// keep returns the file that holds a picture, or "" when it cannot be kept. The
// same picture is kept once. To make room, the oldest are removed.
func (g *gallery) keep(data []byte, extension string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.most
	if most == 0 {
		most = maxGallery
	}
	if g.dir == "" || len(data) > most {
		return ""
	}
	sum := sha256.Sum256(data)
	path := filepath.Join(g.dir, fmt.Sprintf("image-%x%s", sum[:6], extension))
	if slices.ContainsFunc(g.files, func(k kept) bool { return k.path == path }) {
		return path
	}
	for g.bytes+len(data) > most {
		_ = os.Remove(g.files[0].path) // what stays goes with the session
		g.bytes -= g.files[0].bytes
		g.files = g.files[1:]
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		_ = os.Remove(path)
		return ""
	}
	g.files = append(g.files, kept{path, len(data)})
	g.bytes += len(data)
	return path
}
