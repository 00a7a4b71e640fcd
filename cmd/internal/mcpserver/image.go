package mcpserver

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // a format that pictures come in
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/timeline"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // a format that pictures come in
)

const (
	// DefaultImageSide bounds the longest side of a picture in a reply, in pixels. Vision
	// models shrink larger pictures themselves, and charge for them.
	DefaultImageSide = 1568

	// maxImages and maxImageBytes bound the pictures in one result; more are only named.
	// In base64 they are 5 MB, which the interfaces of models accept.
	maxImages     = 8
	maxImageBytes = 3_750_000

	// maxNamedImages bounds the pictures that are named without being shown; the others
	// are counted.
	maxNamedImages = 8

	// maxPixels bounds the pictures that are decoded, at up to four bytes for each pixel; with 16
	// bits for each colour it is half of that. A larger one is only named.
	maxPixels = 64 << 20

	// imageTimeout bounds the reading of one picture, and allImagesTimeout that of all in one result. A
	// JPEG of 400 KB can have thousands of passes over all of its pixels.
	imageTimeout     = 10 * time.Second
	allImagesTimeout = 20 * time.Second

	// maxStoredBytes bounds the picture files of one session, in bytes.
	maxStoredBytes = 256 << 20
)

// imageExtensions are the kinds of pictures that models can see, with the extensions of their
// files.
var imageExtensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
}

// addImage adds a line about a picture, and the picture itself within the bounds. A picture that
// is changed or not shown is saved to a file.
func (c *content) addImage(i *timeline.Image, side int, files *imageStore) {
	about := "image"
	if i.Title != "" {
		about += fmt.Sprintf(" %q", i.Title)
	}
	if size, _, err := image.DecodeConfig(bytes.NewReader(i.Data)); err == nil && size.Width > 0 && size.Height > 0 {
		about += fmt.Sprintf(", %d x %d", size.Width, size.Height)
	}
	shown, how, why := c.fitImage(i, side)
	switch {
	case why != "":
		about += ", not shown: " + why
	case how != "":
		about += ", shown " + how
	}
	if why != "" || how != "" {
		extension, known := imageExtensions[i.MIME]
		if !known {
			extension = ".bin"
		}
		if file := files.saveImage(i.Data, extension); file != "" {
			about += "; whole in " + file
		}
	}
	if why != "" {
		if c.namedImages++; c.namedImages <= maxNamedImages {
			c.addLine("[" + about + "]")
		}
		return
	}
	c.addLine("[" + about + "]")
	c.images++
	c.bytes += len(shown.Data)
	c.blocks = append(c.blocks, &mcp.ImageContent{Data: shown.Data, MIMEType: shown.MIME})
}

// fitImage returns a picture in the form to be shown, and how it was changed; or why it is not shown.
func (c *content) fitImage(i *timeline.Image, side int) (shown *timeline.Image, how, why string) {
	if c.noImages {
		return nil, "", "this client would show it as letters"
	}
	if c.images >= maxImages {
		return nil, "", fmt.Sprintf("a reply holds %d", maxImages)
	}
	if imageExtensions[i.MIME] == "" {
		return nil, "", fmt.Sprintf("it is %s, and not PNG", i.MIME)
	}
	mended := *i
	mended.Data = timeline.RepairPNG(i.Data)
	i = &mended
	begun := time.Now()
	picture, format, why := decodeImage(i, min(imageTimeout, allImagesTimeout-c.readingTime))
	c.readingTime += time.Since(begun)
	if why != "" {
		return nil, "", why
	}
	size := picture.Bounds().Size()
	shown = &timeline.Image{MIME: "image/" + format, Data: i.Data} // named after its bytes, because APIs refuse a wrong name
	var err error
	if side > 0 && max(size.X, size.Y) > side {
		picture, how = scaleDown(picture, side), "smaller"
	}
	if how != "" || format == "gif" { // models see only one frame of a GIF: the one that was read
		if format != "jpeg" {
			format = "png"
		}
		shown, err = encodeImage(picture, format)
	}
	if err == nil && c.bytes+len(shown.Data) > maxImageBytes && format != "jpeg" {
		format = "jpeg"
		shown, err = encodeImage(picture, format)
	}
	if how == "" && shown.MIME != i.MIME {
		how = "as " + strings.ToUpper(format)
	}
	switch {
	case err != nil:
		return nil, "", "it cannot be made smaller: " + err.Error()
	case c.bytes+len(shown.Data) > maxImageBytes:
		return nil, "", timeline.FormatBytes(int64(len(shown.Data))) + " are too much for this reply"
	}
	return shown, how, ""
}

// A deadlineReader reader fails when its time is over, because a decoder cannot be stopped otherwise. It
// gives little at a time: a few bytes can ask for much work.
type deadlineReader struct {
	data     *bytes.Reader
	deadline time.Time
}

var errReadTimeout = errors.New("it takes too long to read")

func (h deadlineReader) Read(p []byte) (int, error) {
	if h.isLate() {
		return 0, errReadTimeout
	}
	return h.data.Read(p[:min(len(p), 512)])
}

func (h deadlineReader) isLate() bool { return time.Now().After(h.deadline) }

// decodeImage decodes a whole picture, within a time. A picture that a model cannot read would end
// its conversation, because the client sends it again with every message.
func decodeImage(i *timeline.Image, most time.Duration) (picture image.Image, format, why string) {
	name := strings.ToUpper(strings.TrimPrefix(i.MIME, "image/"))
	damaged := func(err error) string {
		what := "is damaged"
		_, otherPNG := errors.AsType[png.UnsupportedError](err)
		_, otherJPEG := errors.AsType[jpeg.UnsupportedError](err)
		if otherPNG || otherJPEG || name == "WEBP" { // which may be a kind that is not known here
			what = "cannot be read"
		}
		return fmt.Sprintf("the %s %s (%v)", name, what, err)
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(i.Data))
	switch {
	case err != nil:
		return nil, "", damaged(err)
	case size.Width <= 0 || size.Height <= 0:
		return nil, "", fmt.Sprintf("the %s is damaged (%d x %d)", name, size.Width, size.Height)
	case size.Width > maxPixels/size.Height:
		return nil, "", fmt.Sprintf("more than %d million pixels", maxPixels>>20)
	case isDeepColor(size.ColorModel) && size.Width > maxPixels/2/size.Height:
		return nil, "", fmt.Sprintf("more than %d million pixels, with 16 bits for each colour", maxPixels/2>>20)
	}
	from := deadlineReader{bytes.NewReader(i.Data), time.Now().Add(most)}
	picture, format, err = image.Decode(from)
	switch {
	case err != nil && from.isLate(): // some decoders hide the reader's error
		return nil, "", errReadTimeout.Error()
	case err != nil:
		return nil, "", damaged(err)
	}
	return picture, format, ""
}

// isDeepColor reports whether a pixel of a picture takes eight bytes.
func isDeepColor(m color.Model) bool { return m == color.RGBA64Model || m == color.NRGBA64Model }

// addUnnamedCount counts the pictures that were not even named.
func (c *content) addUnnamedCount(files *imageStore) {
	if c.namedImages <= maxNamedImages {
		return
	}
	where := ""
	if files.dir != "" {
		where = "; in " + filepath.Join(files.dir, "image-*")
	}
	c.addLine(fmt.Sprintf("[%d more pictures, not shown%s]", c.namedImages-maxNamedImages, where))
}

// scaleDown returns a picture whose longest side is side.
func scaleDown(from image.Image, side int) image.Image {
	size := from.Bounds().Size()
	longest := max(size.X, size.Y)
	to := image.NewRGBA(image.Rect(0, 0, max(1, size.X*side/longest), max(1, size.Y*side/longest)))
	draw.BiLinear.Scale(to, to.Bounds(), from, from.Bounds(), draw.Src, nil)
	return to
}

// encodeImage makes a PNG or a JPEG, with white behind transparent parts.
func encodeImage(picture image.Image, format string) (*timeline.Image, error) {
	var b bytes.Buffer
	var err error
	if format == "jpeg" {
		if o, ok := picture.(interface{ Opaque() bool }); ok && !o.Opaque() {
			flat := image.NewRGBA(picture.Bounds())
			draw.Draw(flat, flat.Bounds(), image.White, image.Point{}, draw.Src)
			draw.Draw(flat, flat.Bounds(), picture, picture.Bounds().Min, draw.Over)
			picture = flat
		}
		err = jpeg.Encode(&b, picture, &jpeg.Options{Quality: 90})
	} else {
		err = png.Encode(&b, picture)
	}
	return &timeline.Image{MIME: "image/" + format, Data: b.Bytes()}, err
}

// An imageStore keeps pictures in files of a session, which are removed with it.
type imageStore struct {
	dir        string // "" keeps nothing
	createsDir bool   // the directory, when it is missing
	maxBytes   int    // bytes; 0 means maxStoredBytes

	mu    sync.Mutex
	files []storedImage // guarded by mu; oldest first
	bytes int           // guarded by mu; of files
}

type storedImage struct {
	path  string
	bytes int
}

// saveImage returns the file that holds a picture, or "" when it cannot be kept. The
// same picture is kept once. To make room, the oldest are removed.
func (g *imageStore) saveImage(data []byte, extension string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.maxBytes
	if most == 0 {
		most = maxStoredBytes
	}
	if g.dir == "" || len(data) > most {
		return ""
	}
	sum := sha256.Sum256(data)
	path := filepath.Join(g.dir, fmt.Sprintf("image-%x%s", sum[:6], extension))
	if slices.ContainsFunc(g.files, func(k storedImage) bool { return k.path == path }) {
		return path
	}
	for g.bytes+len(data) > most {
		_ = os.Remove(g.files[0].path) // what stays goes with the session
		g.bytes -= g.files[0].bytes
		g.files = g.files[1:]
	}
	if g.createsDir && os.MkdirAll(g.dir, 0o700) != nil {
		return ""
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		_ = os.Remove(path)
		return ""
	}
	g.files = append(g.files, storedImage{path, len(data)})
	g.bytes += len(data)
	return path
}
