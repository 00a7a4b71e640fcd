package reply

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // decodes GIF
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // decodes WebP

	"github.com/turnstone-repl/turnstone/internal/pngrepair"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// DefaultImageSide bounds the longest side of an image in a reply, in pixels. Vision models
	// shrink larger images themselves, and charge for them.
	DefaultImageSide = 1568

	// maxImages and maxImageBytes bound the images in one result; more are only named. In base64
	// they are 5 MB, which the APIs of models accept.
	maxImages     = 8
	maxImageBytes = 3_750_000

	// maxNamedImages bounds the images that are named without being shown; further ones are
	// counted.
	maxNamedImages = 8

	// maxPixels bounds the images that are decoded, at up to four bytes a pixel. With 16 bits for
	// each color, the bound is half as high. A larger image is only named.
	maxPixels = 64 << 20

	// imageTimeout bounds the decoding of one image. allImagesTimeout bounds the decoding of all
	// images in one result. A JPEG of 400 KB can have thousands of passes over all of its pixels.
	imageTimeout     = 10 * time.Second
	allImagesTimeout = 20 * time.Second

	// maxStoredBytes bounds the image files of one session.
	maxStoredBytes = 256 << 20
)

// imageExtensions maps the image types that models can see to their file extensions.
var imageExtensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
}

// addImage adds a line about an image, and within the bounds the image itself. An image that is
// changed or not shown is saved to a file.
func (c *content) addImage(i *timeline.Image, side int, files *ImageStore) {
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
			about += "; original in " + file
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

// fitImage returns an image in the form to be shown, and how it was changed, or why it is not
// shown.
func (c *content) fitImage(i *timeline.Image, side int) (shown *timeline.Image, how, why string) {
	if c.noImages {
		return nil, "", "this client would show it as text"
	}
	if c.images >= maxImages {
		return nil, "", fmt.Sprintf("a reply shows at most %d", maxImages)
	}
	if imageExtensions[i.MIME] == "" {
		return nil, "", fmt.Sprintf("it is %s, not PNG", i.MIME)
	}
	repaired := *i
	repaired.Data = pngrepair.Repair(i.Data)
	i = &repaired
	start := time.Now()
	decoded, format, why := decodeImage(i, min(imageTimeout, allImagesTimeout-c.readingTime))
	c.readingTime += time.Since(start)
	if why != "" {
		return nil, "", why
	}
	size := decoded.Bounds().Size()
	shown = &timeline.Image{MIME: "image/" + format, Data: i.Data} // the actual format, because APIs reject a wrong type
	var err error
	if side > 0 && max(size.X, size.Y) > side {
		decoded, how = scaleDown(decoded, side), "smaller"
	}
	if how != "" || format == "gif" { // models see only one frame of a GIF: the decoded one
		if format != "jpeg" {
			format = "png"
		}
		shown, err = encodeImage(decoded, format)
	}
	if err == nil && c.bytes+len(shown.Data) > maxImageBytes && format != "jpeg" {
		format = "jpeg"
		shown, err = encodeImage(decoded, format)
	}
	if how == "" && shown.MIME != i.MIME {
		how = "as " + strings.ToUpper(format)
	}
	switch {
	case err != nil:
		return nil, "", "it cannot be scaled down: " + err.Error()
	case c.bytes+len(shown.Data) > maxImageBytes:
		return nil, "", text.Bytes(int64(len(shown.Data))) + " exceed the limit of this reply"
	}
	return shown, how, ""
}

// A deadlineReader fails after its deadline, because a decoder cannot be stopped otherwise. It
// returns little at a time, because a few bytes can ask for much work.
type deadlineReader struct {
	data     *bytes.Reader
	deadline time.Time
}

var errReadTimeout = errors.New("decoding takes too long")

// Read implements io.Reader.
func (r deadlineReader) Read(p []byte) (int, error) {
	if r.isLate() {
		return 0, errReadTimeout
	}
	return r.data.Read(p[:min(len(p), 512)])
}

func (r deadlineReader) isLate() bool { return time.Now().After(r.deadline) }

// decodeImage decodes a whole image, within a time limit. An image that a model cannot read would
// end its conversation, because the client sends it again with every message.
func decodeImage(i *timeline.Image, most time.Duration) (decoded image.Image, format, why string) {
	name := strings.ToUpper(strings.TrimPrefix(i.MIME, "image/"))
	damaged := func(err error) string {
		what := "is damaged"
		_, otherPNG := errors.AsType[png.UnsupportedError](err)
		_, otherJPEG := errors.AsType[jpeg.UnsupportedError](err)
		if otherPNG || otherJPEG || name == "WEBP" { // perhaps a variant that is not supported here
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
		return nil, "", fmt.Sprintf("more than %d million pixels, with 16 bits for each color", maxPixels/2>>20)
	}
	from := deadlineReader{bytes.NewReader(i.Data), time.Now().Add(most)}
	decoded, format, err = image.Decode(from)
	switch {
	case err != nil && from.isLate(): // some decoders hide the reader's error
		return nil, "", errReadTimeout.Error()
	case err != nil:
		return nil, "", damaged(err)
	}
	return decoded, format, ""
}

// isDeepColor reports whether a decoded pixel takes eight bytes.
func isDeepColor(m color.Model) bool { return m == color.RGBA64Model || m == color.NRGBA64Model }

// addUnnamedCount adds the number of images that were not named.
func (c *content) addUnnamedCount(files *ImageStore) {
	if c.namedImages <= maxNamedImages {
		return
	}
	where := ""
	if files.dir != "" {
		where = "; in " + filepath.Join(files.dir, "image-*")
	}
	c.addLine(fmt.Sprintf("[%d more images, not shown%s]", c.namedImages-maxNamedImages, where))
}

// scaleDown scales an image so that its longest side is side.
func scaleDown(from image.Image, side int) image.Image {
	size := from.Bounds().Size()
	longest := max(size.X, size.Y)
	to := image.NewRGBA(image.Rect(0, 0, max(1, size.X*side/longest), max(1, size.Y*side/longest)))
	draw.BiLinear.Scale(to, to.Bounds(), from, from.Bounds(), draw.Src, nil)
	return to
}

// encodeImage encodes an image as PNG or JPEG. In a JPEG, transparent parts become white.
func encodeImage(m image.Image, format string) (*timeline.Image, error) {
	var b bytes.Buffer
	var err error
	if format == "jpeg" {
		if o, ok := m.(interface{ Opaque() bool }); ok && !o.Opaque() {
			flat := image.NewRGBA(m.Bounds())
			draw.Draw(flat, flat.Bounds(), image.White, image.Point{}, draw.Src)
			draw.Draw(flat, flat.Bounds(), m, m.Bounds().Min, draw.Over)
			m = flat
		}
		err = jpeg.Encode(&b, m, &jpeg.Options{Quality: 90})
	} else {
		err = png.Encode(&b, m)
	}
	return &timeline.Image{MIME: "image/" + format, Data: b.Bytes()}, err
}

// An ImageStore stores images in files of a session, which are removed with it.
type ImageStore struct {
	dir        string // "" stores nothing
	createsDir bool   // creates dir if it is missing
	maxBytes   int    // 0 means maxStoredBytes

	mu    sync.Mutex
	files []storedImage // guarded by mu; oldest first
	bytes int           // guarded by mu; of files
}

type storedImage struct {
	path  string
	bytes int
}

// UseDir sets the directory for the images, unless it is known already. creates means that it is
// created if it is missing.
func (s *ImageStore) UseDir(dir string, creates bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		s.dir, s.createsDir = dir, creates
	}
}

// saveImage stores an image and returns the path of the file, or "" if it cannot be stored. Equal
// images are stored once. The oldest files are removed to make room.
func (s *ImageStore) saveImage(data []byte, extension string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.maxBytes
	if most == 0 {
		most = maxStoredBytes
	}
	if s.dir == "" || len(data) > most {
		return ""
	}
	sum := sha256.Sum256(data)
	path := filepath.Join(s.dir, fmt.Sprintf("image-%x%s", sum[:6], extension))
	if slices.ContainsFunc(s.files, func(k storedImage) bool { return k.path == path }) {
		return path
	}
	for s.bytes+len(data) > most {
		_ = os.Remove(s.files[0].path) // if it fails, the file is removed with the session
		s.bytes -= s.files[0].bytes
		s.files = s.files[1:]
	}
	if s.createsDir && os.MkdirAll(s.dir, 0o700) != nil {
		return ""
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		_ = os.Remove(path)
		return ""
	}
	s.files = append(s.files, storedImage{path, len(data)})
	s.bytes += len(data)
	return path
}

func hasImage(d timeline.Display) bool {
	_, _, ok := d.ImageData()
	return ok
}
