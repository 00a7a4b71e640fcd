package reply

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/timeline"
)

// newTestImage returns an image whose left half is dark.
func newTestImage(t *testing.T, width, height int, mime string) *timeline.Image {
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

// readShownImage returns the line of an image, and its block or nil.
func readShownImage(t *testing.T, c *content) (string, *mcp.ImageContent) {
	t.Helper()
	text := c.blocks[0].(*mcp.TextContent).Text
	if len(c.blocks) == 1 {
		return text, nil
	}
	return text, c.blocks[1].(*mcp.ImageContent)
}

func TestImage(t *testing.T) {
	t.Run("is scaled down, and saved in full size", func(t *testing.T) {
		for _, mime := range []string{"image/png", "image/jpeg"} {
			var c content
			i := newTestImage(t, 3000, 1500, mime)
			dir := t.TempDir()
			c.addImage(i, 1568, &ImageStore{dir: dir})
			text, block := readShownImage(t, &c)
			before, path, ok := strings.Cut(strings.TrimSuffix(text, "]"), "; original in ")
			if before != `[image "wave", 3000 x 1500, shown smaller` || !ok {
				t.Fatalf("got %q", text)
			}
			if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, i.Data) {
				t.Errorf("the file is not the image: %v", err)
			}
			m, format, err := image.Decode(bytes.NewReader(block.Data))
			if err != nil {
				t.Fatal(err)
			}
			if m.Bounds().Dx() != 1568 || m.Bounds().Dy() != 784 || "image/"+format != mime || block.MIMEType != mime {
				t.Errorf("got %v, %s, %s", m.Bounds(), format, block.MIMEType)
			}
			if left, right := grayAt(m, 100, 400), grayAt(m, 1400, 400); left > 10 || right < 245 {
				t.Errorf("got %d and %d, want a dark and a light half", left, right)
			}
		}
	})

	t.Run("is left unchanged within the limit", func(t *testing.T) {
		for name, test := range map[string]struct{ width, height, side int }{
			"smaller":    {400, 300, 1568},
			"just":       {1568, 10, 1568},
			"switched":   {3000, 10, -1},
			"tiny never": {1, 1, 1568},
		} {
			var c content
			i := newTestImage(t, test.width, test.height, "image/png")
			dir := t.TempDir()
			c.addImage(i, test.side, &ImageStore{dir: dir})
			text, block := readShownImage(t, &c)
			if strings.Contains(text, "smaller") || !bytes.Equal(block.Data, i.Data) {
				t.Errorf("%s: got %q", name, text)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
				t.Errorf("%s: got files %v, %v", name, files, err)
			}
		}
	})

	t.Run("is saved when it cannot be shown", func(t *testing.T) {
		for want, i := range map[string]*timeline.Image{
			"not shown: it is image/svg+xml, not PNG": {MIME: "image/svg+xml", Data: []byte("<svg/>")},
			"not shown: more than 64 million pixels":  newHugeImage(t),
		} {
			var c content
			dir := t.TempDir()
			c.addImage(i, 1568, &ImageStore{dir: dir})
			text, block := readShownImage(t, &c)
			if !strings.Contains(text, want) || !strings.Contains(text, "; original in "+dir) || block != nil {
				t.Errorf("got %q, want %q", text, want)
			}
		}
	})

	// The image of the MCP reference server has a color profile with a wrong checksum.
	t.Run("is shown despite an invalid color profile", func(t *testing.T) {
		const head = 33 // bytes of the signature and the header
		good := newTestImage(t, 100, 90, "image/png").Data
		profile := []byte("\x00\x00\x00\x03iCCPabc\x00\x00\x00\x01")
		var c content
		c.addImage(&timeline.Image{MIME: "image/png", Data: slices.Concat(good[:head], profile, good[head:])}, 1568, &ImageStore{})
		if text, block := readShownImage(t, &c); block == nil || !bytes.Equal(block.Data, good) {
			t.Errorf("got %q, %v", text, block != nil)
		}
	})

	// A client that sends a damaged image to its model sends it again with every message.
	t.Run("is never shown when damaged", func(t *testing.T) {
		var b bytes.Buffer
		if err := gif.Encode(&b, image.NewGray(image.Rect(0, 0, 90, 90)), nil); err != nil {
			t.Fatal(err)
		}
		webp, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
		if err != nil {
			t.Fatal(err)
		}
		whole := []*timeline.Image{
			newTestImage(t, 100, 90, "image/png"), newTestImage(t, 100, 90, "image/jpeg"),
			{MIME: "image/gif", Data: b.Bytes()}, {MIME: "image/webp", Data: webp},
		}
		try := func(what string, i *timeline.Image, want string) {
			t.Helper()
			var c content
			dir := t.TempDir()
			c.addImage(i, 1568, &ImageStore{dir: dir})
			text, block := readShownImage(t, &c)
			if !strings.Contains(text, "not shown: the "+want) || !strings.Contains(text, "; original in "+dir) || block != nil {
				t.Errorf("%s: got %q, %v", what, text, block != nil)
			}
		}
		for _, i := range whole {
			var c content
			c.addImage(i, 1568, &ImageStore{})
			if _, block := readShownImage(t, &c); block == nil {
				t.Fatalf("%s: an intact image is not shown", i.MIME)
			}
			name := strings.ToUpper(strings.TrimPrefix(i.MIME, "image/"))
			for _, length := range []int{4, len(i.Data) / 3, len(i.Data) - len(i.Data)/4} {
				try(fmt.Sprintf("%d of %d bytes", length, len(i.Data)), &timeline.Image{MIME: i.MIME, Data: i.Data[:length]}, name+" ")
			}
		}
		short := newTestImage(t, 100, 90, "image/png")
		data := bytes.Clone(short.Data)
		copy(data[20:24], []byte{0, 0, 1, 0}) // more lines than the data has
		binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		try("a short IDAT", &timeline.Image{MIME: "image/png", Data: data}, "PNG is damaged (")
		data = bytes.Clone(short.Data)
		copy(data[16:24], make([]byte, 8))
		binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		try("0 x 0", &timeline.Image{MIME: "image/png", Data: data}, "PNG is damaged (")
		data = bytes.Clone(whole[2].Data)
		copy(data[6:10], make([]byte, 4))
		try("a GIF of 0 x 0", &timeline.Image{MIME: "image/gif", Data: data}, "GIF is damaged (")
	})

	t.Run("gets its type from its bytes", func(t *testing.T) {
		i := newTestImage(t, 100, 90, "image/jpeg")
		i.MIME = "image/png"
		var c content
		c.addImage(i, 1568, &ImageStore{})
		if _, block := readShownImage(t, &c); block == nil || block.MIMEType != "image/jpeg" {
			t.Errorf("got %v", block)
		}
	})

	t.Run("is shown as JPEG when too large", func(t *testing.T) {
		m := image.NewRGBA(image.Rect(0, 0, 1200, 1200))
		_, _ = rand.NewChaCha8([32]byte{}).Read(m.Pix) // PNG cannot compress this
		for i := 3; i < len(m.Pix); i += 4 {
			m.Pix[i] = 255
		}
		copy(m.Pix[:4], []byte{0, 0, 0, 0}) // transparent
		var b bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		if b.Len() < maxImageBytes {
			t.Fatalf("the image has only %d bytes", b.Len())
		}
		var c content
		dir := t.TempDir()
		c.addImage(&timeline.Image{MIME: "image/png", Data: b.Bytes()}, 1568, &ImageStore{dir: dir})
		text, block := readShownImage(t, &c)
		if !strings.HasPrefix(text, "[image, 1200 x 1200, shown as JPEG; original in "+dir) || block == nil || block.MIMEType != "image/jpeg" {
			t.Fatalf("got %q", text)
		}
		shown, err := jpeg.Decode(bytes.NewReader(block.Data))
		if err != nil {
			t.Fatal(err)
		}
		if got := grayAt(shown, 0, 0); got < 100 {
			t.Errorf("got %d where the image is transparent, want white", got)
		}
	})

	t.Run("is not shown when reading it takes too long", func(t *testing.T) {
		bomb := &timeline.Image{MIME: "image/jpeg", Data: newSlowJPEG(8000, 20_000)}
		start := time.Now()
		_, _, why := decodeImage(bomb, 100*time.Millisecond)
		if took := time.Since(start); why != errReadTimeout.Error() || took > time.Minute {
			t.Errorf("got %q after %v", why, took)
		}
		small := &timeline.Image{MIME: "image/jpeg", Data: newSlowJPEG(64, 3)}
		if _, _, why := decodeImage(small, time.Minute); why != "" {
			t.Errorf("a small image of the same kind: %q", why)
		}
		c := content{readingTime: allImagesTimeout} // other images have used up the time
		dir := t.TempDir()
		c.addImage(bomb, 1568, &ImageStore{dir: dir})
		if text, block := readShownImage(t, &c); !strings.HasPrefix(text, "[image, 8000 x 8000, not shown: decoding takes too long; original in "+dir) || block != nil {
			t.Errorf("got %q, %v", text, block != nil)
		}
	})

	// A small file may unpack to any size. So its declared size is checked first, and chunks that
	// do not belong to the image are not unpacked.
	t.Run("takes little memory even for a decompression bomb", func(t *testing.T) {
		good := newTestImage(t, 100, 90, "image/png").Data
		bomb := newZlibBomb(t)
		withHeader := func(width, height uint32, depth, kind byte) []byte {
			data := bytes.Clone(good)
			binary.BigEndian.PutUint32(data[16:], width)
			binary.BigEndian.PutUint32(data[20:], height)
			data[24], data[25] = depth, kind
			binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
			return data
		}
		for name, test := range map[string]struct {
			mime, want string
			data       []byte
		}{
			"60000 x 60000": {"image/png", "60000 x 60000, not shown: more than 64 million pixels", withHeader(60000, 60000, 8, 0)},
			"2^31 x 2^31":   {"image/png", "not shown: ", withHeader(1<<31-1, 1<<31-1, 8, 0)},
			"16 bits":       {"image/png", "8000 x 8000, not shown: more than 32 million pixels, with 16 bits for each color", withHeader(8000, 8000, 16, 6)},
			"zTXt":          {"image/png", "[image, 100 x 90]", withPNGChunks(good, "zTXta\x00\x00"+bomb)},
			"iCCP":          {"image/png", "[image, 100 x 90]", withPNGChunks(good, "iCCPa\x00\x00"+bomb)},
			"many chunks":   {"image/png", "[image, 100 x 90]", withPNGChunks(good, slices.Repeat([]string{"tEXta\x00b"}, 1000)...)},
			"a GIF":         {"image/gif", "not shown: more than 64 million pixels", []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x00")},
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var c content
			c.addImage(&timeline.Image{MIME: test.mime, Data: test.data}, 1568, &ImageStore{})
			runtime.ReadMemStats(&after)
			if text, _ := readShownImage(t, &c); !strings.Contains(text, test.want) {
				t.Errorf("%s: got %q", name, text)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20+8*uint64(len(test.data)) {
				t.Errorf("%s: %d KB took %d MiB", name, len(test.data)>>10, took>>20)
			}
		}
	})
}

func grayAt(m image.Image, x, y int) uint8 {
	g, _ := color.GrayModel.Convert(m.At(x, y)).(color.Gray)
	return g.Y
}

// newSlowJPEG returns a JPEG of a few hundred thousand bytes, with so many passes over all pixels
// that decoding takes minutes.
func newSlowJPEG(side, passes int) []byte {
	b := bytes.NewBuffer([]byte{0xff, 0xd8})
	segment := func(marker byte, data ...byte) {
		b.Write([]byte{0xff, marker, byte((len(data) + 2) >> 8), byte(len(data) + 2)})
		b.Write(data)
	}
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	segment(0xc2, 8, byte(side>>8), byte(side), byte(side>>8), byte(side), 1, 1, 0x11, 0) // progressive, gray
	oneCode := func(class, value byte) {
		segment(0xc4, append(append([]byte{class, 1}, make([]byte, 15)...), value)...)
	}
	oneCode(0x00, 0)
	oneCode(0x10, 0xe0) // a run of empty blocks, whose length has 14 bits
	blocks := (side + 7) / 8 * ((side + 7) / 8)
	segment(0xda, 1, 1, 0, 0, 0, 0)
	b.Write(make([]byte, blocks/8+1))
	for range passes {
		segment(0xda, 1, 1, 0, 1, 63, 0)
		bits, n := uint64(0), 0
		for range blocks/32767 + 1 {
			bits, n = bits<<15|0x3fff, n+15
			for ; n >= 8; n -= 8 {
				if b.WriteByte(byte(bits >> (n - 8))); byte(bits>>(n-8)) == 0xff {
					b.WriteByte(0)
				}
			}
		}
		b.WriteByte(0x7f)
	}
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

// withPNGChunks returns a PNG with more chunks after its header.
func withPNGChunks(whole []byte, chunks ...string) []byte {
	const head = 33 // bytes of the signature and the header
	out := bytes.Clone(whole[:head])
	for _, chunk := range chunks { // a name and data
		out = binary.BigEndian.AppendUint32(out, uint32(len(chunk)-4))
		out = append(out, chunk...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE([]byte(chunk)))
	}
	return append(out, whole[head:]...)
}

// newZlibBomb returns 100 MiB of zeros, compressed by zlib to 100 KB.
func newZlibBomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 100 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// newHugeImage returns an image whose header claims more pixels than are decoded.
func newHugeImage(t *testing.T) *timeline.Image {
	t.Helper()
	i := newTestImage(t, 2000, 1, "image/png")
	copy(i.Data[16:24], []byte{0, 0, 0x40, 0, 0, 0, 0x40, 0}) // 16384 x 16384
	binary.BigEndian.PutUint32(i.Data[29:], crc32.ChecksumIEEE(i.Data[12:29]))
	return i
}

func TestImageStore(t *testing.T) {
	g := &ImageStore{dir: t.TempDir(), maxBytes: 1000}
	data := func(fill byte) []byte { return bytes.Repeat([]byte{fill}, 500) }
	first := g.saveImage(data(1), ".png")
	if again := g.saveImage(data(1), ".png"); again != first || first == "" {
		t.Errorf("got %q and %q for the same image", first, again)
	}
	g.saveImage(data(2), ".png")
	g.saveImage([]byte("one more"), ".png")
	files, err := filepath.Glob(filepath.Join(g.dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("got %d files, %v", len(files), err)
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("the oldest file still exists: %v", err)
	}
	if got := g.saveImage(make([]byte, 1001), ".png"); got != "" {
		t.Errorf("got %q for an image beyond the limit", got)
	}
	if got := (&ImageStore{}).saveImage([]byte("x"), ".png"); got != "" {
		t.Errorf("got %q without a directory", got)
	}
}
