package event

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif" // formats whose size can be shown
	_ "image/jpeg"
	_ "image/png"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline/internal/describe"
	"github.com/turnstone-repl/turnstone/timeline/internal/screen"
)

// MIME types to which this package gives a meaning.
const (
	mimePlain    = "text/plain"
	mimeMarkdown = "text/markdown"
	mimePNG      = "image/png"
)

// MIMETable is the type of a bounded form of a data frame, for readers that page through it. It
// never comes alone, so no text mentions it.
const MIMETable = "application/vnd.turnstone.table+json"

// MIMEWidget is the type of a reference to a widget's comm, for front ends of notebooks. It comes with
// a text, which all other readers show.
const MIMEWidget = "application/vnd.jupyter.widget-view+json"

// maxMarkdownBytes bounds, in bytes, the Markdown that is shown verbatim.
const maxMarkdownBytes = 4 << 10

// imageTypes are the MIME types of bitmaps, the preferred one first.
var imageTypes = []string{mimePNG, "image/jpeg", "image/gif", "image/webp"}

// An Image is the bitmap of a Display, for readers that show images.
type Image struct {
	MIME  string
	Data  []byte
	Title string
}

// NewImageDisplay returns a Display with one type, an image. id may be empty.
func NewImageDisplay(mime string, data []byte, id, title string) Display {
	return Display{Data: map[string][]byte{mime: data}, ID: id, Title: title}
}

// ImageData returns the bitmap for a model or a terminal, if there is one.
func (d Display) ImageData() (mime string, data []byte, ok bool) {
	for _, mime := range imageTypes {
		if data, ok := d.Data[mime]; ok {
			return mime, data, true
		}
	}
	return "", nil, false
}

// TotalBytes returns the total size of all types.
func (d Display) TotalBytes() int64 {
	n := int64(0)
	for _, data := range d.Data {
		n += int64(len(data))
	}
	for _, at := range d.unread {
		n += int64(at.Size)
	}
	return n
}

// sizeOf returns the size of one type, whose data may be unread.
func (d Display) sizeOf(mime string) (n int64, has bool) {
	if at, ok := d.unread[mime]; ok {
		return int64(at.Size), true
	}
	data, ok := d.Data[mime]
	return int64(len(data)), ok
}

// TruncateTo leaves out types until the rest has at most this many bytes: the largest first, and
// text/plain last.
func (d Display) TruncateTo(most int64) Display {
	rest := d.TotalBytes()
	if rest <= most {
		return d
	}
	drop := make(map[string]bool)
	weight := func(mime string) int {
		if mime == mimePlain {
			return -1
		}
		return len(d.Data[mime])
	}
	for _, mime := range slices.SortedFunc(maps.Keys(d.Data), func(a, b string) int { return weight(b) - weight(a) }) {
		if rest <= most {
			break
		}
		rest -= int64(len(d.Data[mime]))
		drop[mime] = true
	}
	return d.withoutTypes(func(mime string, _ []byte) bool { return drop[mime] })
}

// withoutTypes leaves out the types for which drop returns true.
func (d Display) withoutTypes(drop func(mime string, data []byte) bool) Display {
	data, leftOut := make(map[string][]byte, len(d.Data)), maps.Clone(d.Omitted)
	for mime, b := range d.Data {
		if !drop(mime, b) {
			data[mime] = b
			continue
		}
		if leftOut == nil {
			leftOut = make(map[string]Blob)
		}
		left := Blob{Bytes: int64(len(b))}
		if sum, ok := d.digests[mime]; ok {
			left.Digest = sum.String()
		}
		leftOut[mime] = left
	}
	if len(data) < len(d.Data) {
		d.Data, d.Omitted = data, leftOut
	}
	return d
}

// Text returns the lines that stand for a Display where no image can be shown, without a
// newline at the end. It is "" for an image, and for a result that its echo already shows.
//
// A chart becomes a bracketed line that describes it, based on its JSON. Short Markdown is shown
// verbatim, otherwise text/plain; HTML is never shown.
func (d Display) Text() string {
	if _, _, ok := d.ImageData(); ok {
		return ""
	}
	if chart := describe.Chart(d.Data); chart != "" {
		return screen.LabelLine(chart + "; repl view shows it")
	}
	plain, hasPlain := d.Data[mimePlain]
	switch markdown := d.Data[mimeMarkdown]; {
	case d.Result && (hasPlain || d.Title == ""): // it was echoed
		return ""
	case len(markdown) > 0 && len(markdown) <= maxMarkdownBytes:
		return strings.TrimRight(string(markdown), "\n")
	case hasPlain:
		return strings.TrimRight(string(plain), "\n")
	case len(d.Data) == 0 && len(d.Omitted) == 0:
		return ""
	}
	return screen.LabelLine(d.describeTypes() + "; repl view shows it")
}

// describeTypes describes a display that has no text: "text/html, 12 KB".
func (d Display) describeTypes() string {
	sizes := make(map[string]int64)
	for mime, b := range d.Omitted {
		sizes[mime] = b.Bytes
	}
	for mime, data := range d.Data {
		sizes[mime] = int64(len(data))
	}
	if len(sizes) > 1 {
		delete(sizes, MIMETable)
		delete(sizes, MIMEWidget)
	}
	var parts []string
	for _, mime := range slices.Sorted(maps.Keys(sizes)) {
		if len(parts) == 4 {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, mime+", "+text.Bytes(sizes[mime]))
	}
	what := strings.Join(parts, "; ")
	if d.Title != "" {
		what = d.Title + ": " + what
	}
	return what
}

// TitledImage returns the image with its title, or nil.
func (d Display) TitledImage() *Image {
	mime, data, ok := d.ImageData()
	if !ok {
		return nil
	}
	return &Image{MIME: mime, Data: data, Title: d.Title}
}

// labelText describes the display in one line.
func (d Display) labelText() string {
	if i := d.TitledImage(); i != nil {
		return i.Label()
	}
	return "display: " + d.describeTypes()
}

// Label describes the image in one line: "image: TITLE, W x H, BYTES".
func (i *Image) Label() string {
	what := i.Title
	if what == "" {
		what = i.MIME
	}
	if c, _, err := image.DecodeConfig(bytes.NewReader(i.Data)); err == nil {
		what += fmt.Sprintf(", %d x %d", c.Width, c.Height)
	}
	return fmt.Sprintf("image: %s, %s", what, text.Bytes(int64(len(i.Data))))
}

// StripData returns the event without the display types that have more than limit bytes.
func (e Event) StripData(limit int64) Event {
	if d, ok := e.Body.(Display); ok {
		e.Body = d.withoutTypes(func(_ string, data []byte) bool { return int64(len(data)) > limit })
	}
	return e
}
