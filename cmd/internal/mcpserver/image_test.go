package mcpserver

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/timeline"
)

// drawn is a picture of a size, dark on its left half.
func drawn(t *testing.T, width, height int, mime string) *timeline.Image {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, width, height))
	for i := range m.Pix {
		if i%width >= width/2 {
			m.Pix[i] = 255
		}
	}
	var b bytes.Buffer
	var err error
	if mime == "image/jpeg" {
		err = jpeg.Encode(&b, m, nil)
	} else {
		err = png.Encode(&b, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &timeline.Image{MIME: mime, Data: b.Bytes(), Title: "wave"}
}

// shown is what one picture becomes: its line, and its block or nil.
func shown(t *testing.T, c *content) (string, *mcp.ImageContent) {
	t.Helper()
	text := c.blocks[0].(*mcp.TextContent).Text
	if len(c.blocks) == 1 {
		return text, nil
	}
	return text, c.blocks[1].(*mcp.ImageContent)
}

func TestImage_IsShrunkAndKeptWhole(t *testing.T) {
	for _, mime := range []string{"image/png", "image/jpeg"} {
		var c content
		i := drawn(t, 3000, 1500, mime)
		dir := t.TempDir()
		c.image(i, 1568, &gallery{dir: dir})
		text, block := shown(t, &c)
		before, path, ok := strings.Cut(strings.TrimSuffix(text, "]"), "; whole in ")
		if before != `[image "wave", 3000 x 1500, shown smaller` || !ok {
			t.Fatalf("got %q", text)
		}
		if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, i.Data) {
			t.Errorf("the file is not the picture: %v", err)
		}
		m, format, err := image.Decode(bytes.NewReader(block.Data))
		if err != nil {
			t.Fatal(err)
		}
		if m.Bounds().Dx() != 1568 || m.Bounds().Dy() != 784 || "image/"+format != mime || block.MIMEType != mime {
			t.Errorf("got %v, %s, %s", m.Bounds(), format, block.MIMEType)
		}
		if left, right := grey(m, 100, 400), grey(m, 1400, 400); left > 10 || right < 245 {
			t.Errorf("got %d and %d, want the picture", left, right)
		}
	}
}

func grey(m image.Image, x, y int) uint8 {
	g, _ := color.GrayModel.Convert(m.At(x, y)).(color.Gray)
	return g.Y
}

func TestImage_IsLeftAsItIs(t *testing.T) {
	for name, test := range map[string]struct{ width, height, side int }{
		"smaller":    {400, 300, 1568},
		"just":       {1568, 10, 1568},
		"switched":   {3000, 10, -1},
		"tiny never": {1, 1, 1568},
	} {
		var c content
		i := drawn(t, test.width, test.height, "image/png")
		dir := t.TempDir()
		c.image(i, test.side, &gallery{dir: dir})
		text, block := shown(t, &c)
		if strings.Contains(text, "smaller") || !bytes.Equal(block.Data, i.Data) {
			t.Errorf("%s: got %q", name, text)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%s: got files %v, %v", name, files, err)
		}
	}
}

func TestImage_ThatCannotBeShownIsKept(t *testing.T) {
	broken := drawn(t, 3000, 10, "image/png")
	broken.Data = broken.Data[:60] // its size can be read
	for want, i := range map[string]*timeline.Image{
		"not shown: it is image/svg+xml, and not PNG": {MIME: "image/svg+xml", Data: []byte("<svg/>")},
		"not shown: it cannot be read":                broken,
		"not shown: more than 64 million pixels":      huge(t),
	} {
		var c content
		dir := t.TempDir()
		c.image(i, 1568, &gallery{dir: dir})
		text, block := shown(t, &c)
		if !strings.Contains(text, want) || !strings.Contains(text, "; whole in "+dir) || block != nil {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}

// huge says that it has more pixels than are decoded.
func huge(t *testing.T) *timeline.Image {
	t.Helper()
	i := drawn(t, 2000, 1, "image/png")
	copy(i.Data[16:24], []byte{0, 0, 0x40, 0, 0, 0, 0x40, 0}) // 16384 x 16384
	binary.BigEndian.PutUint32(i.Data[29:], crc32.ChecksumIEEE(i.Data[12:29]))
	return i
}

func TestGallery_IsBounded(t *testing.T) {
	g := &gallery{dir: t.TempDir(), most: 1000}
	data := func(fill byte) []byte { return bytes.Repeat([]byte{fill}, 500) }
	first := g.keep(data(1), ".png")
	if again := g.keep(data(1), ".png"); again != first || first == "" {
		t.Errorf("got %q and %q for the same picture", first, again)
	}
	g.keep(data(2), ".png")
	g.keep([]byte("one more"), ".png")
	files, err := filepath.Glob(filepath.Join(g.dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("got %d files, %v", len(files), err)
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("the oldest is still there: %v", err)
	}
	if got := g.keep(make([]byte, 1001), ".png"); got != "" {
		t.Errorf("got %q for more than fits", got)
	}
	if got := (&gallery{}).keep([]byte("x"), ".png"); got != "" {
		t.Errorf("got %q without a directory", got)
	}
}
