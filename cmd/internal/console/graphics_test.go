package console

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/owners"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestDetectImageProtocol(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want ImageProtocol
	}{
		{"nothing known", map[string]string{"TERM": "xterm-256color"}, NoImages},
		{"kitty", map[string]string{"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, KittyImages},
		{"Ghostty", map[string]string{"TERM_PROGRAM": "ghostty"}, KittyImages},
		{"iTerm2", map[string]string{"TERM_PROGRAM": "iTerm.app"}, ITermImages},
		{"WezTerm", map[string]string{"TERM_PROGRAM": "WezTerm"}, ITermImages},
		{"foot", map[string]string{"TERM": "foot-extra"}, SixelImages},
		{"kitty behind tmux", map[string]string{"KITTY_WINDOW_ID": "1", "TMUX": "/tmp/x"}, NoImages},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := DetectImageProtocol(func(k string) string { return test.env[k] }); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// noiseImage returns a noise image, which does not compress.
func noiseImage(width, height int) image.Image {
	p := image.NewNRGBA(image.Rect(0, 0, width, height))
	seed := uint32(1)
	for i := range p.Pix {
		seed = seed*1664525 + 1013904223
		p.Pix[i] = byte(seed>>24) | 0x80
	}
	return p
}

func encodePNG(t *testing.T, p image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEncodeInline(t *testing.T) {
	t.Run("sends kitty the whole image in chunks", func(t *testing.T) {
		data := encodePNG(t, noiseImage(64, 64))
		text := KittyImages.encodeInline("image/png", data)
		chunks := regexp.MustCompile(`\x1b_G(?:f=100,a=T,)?m=([01]);([^\x1b]*)\x1b\\`).FindAllStringSubmatch(text, -1)
		var all string
		for i, c := range chunks {
			if last := i == len(chunks)-1; len(c[2]) > 4096 || (c[1] == "0") != last {
				t.Errorf("chunk %d of %d has %d characters and m=%s", i, len(chunks), len(c[2]), c[1])
			}
			all += c[2]
		}
		if got, err := base64.StdEncoding.DecodeString(all); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the chunks are not the image: %d bytes, %v, want %d", len(got), err, len(data))
		}
	})

	t.Run("converts JPEG to PNG for kitty", func(t *testing.T) {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, noiseImage(4, 4), nil); err != nil {
			t.Fatal(err)
		}
		if text := KittyImages.encodeInline("image/jpeg", b.Bytes()); !strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n"))[:8]) {
			t.Errorf("got %.60q, want PNG data", text)
		}
	})

	t.Run("shows nothing for a broken image", func(t *testing.T) {
		for _, g := range []ImageProtocol{KittyImages, SixelImages} {
			if got := g.encodeInline("image/jpeg", []byte("not an image")); got != "" {
				t.Errorf("graphics %d: got %q, want nothing", g, got)
			}
		}
	})

	// The GIF of 35 bytes declares four gigabytes of pixels.
	t.Run("does not decode an image with too many pixels", func(t *testing.T) {
		bomb := []byte("GIF89a\xff\xff\xff\xff\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x01\x00\x00;")
		wide := encodePNG(t, noiseImage(4, 4))
		binary.BigEndian.PutUint32(wide[16:], 60000)
		binary.BigEndian.PutUint32(wide[20:], 60000)
		binary.BigEndian.PutUint32(wide[29:], crc32.ChecksumIEEE(wide[12:29]))
		for _, g := range []ImageProtocol{KittyImages, ITermImages, SixelImages} {
			for mime, data := range map[string][]byte{"image/gif": bomb, "image/png": wide} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				got := g.encodeInline(mime, data)
				runtime.ReadMemStats(&after)
				if took := after.TotalAlloc - before.TotalAlloc; got != "" || took > 64<<20 {
					t.Errorf("graphics %d, %s: got %d bytes and used %d MiB", g, mime, len(got), took>>20)
				}
			}
		}
	})

	// The test decodes the result by the rules of the format.
	t.Run("encodes sixels that decode to the same image", func(t *testing.T) {
		red, white := color.RGBA{255, 0, 0, 255}, color.RGBA{255, 255, 255, 255}
		p := image.NewRGBA(image.Rect(0, 0, 9, 8)) // two bands; the second one is not full
		for y := range 8 {
			for x := range 9 {
				if (x+y)%3 == 0 || y == 7 {
					p.Set(x, y, red)
				} // else transparent, which is shown on white
			}
		}
		got := decodeSixel(t, SixelImages.encodeInline("image/png", encodePNG(t, p)))
		for y := range 8 {
			for x := range 9 {
				want := white
				if (x+y)%3 == 0 || y == 7 {
					want = red
				}
				if got[image.Pt(x, y)] != want {
					t.Errorf("pixel %d,%d is %v, want %v", x, y, got[image.Pt(x, y)], want)
				}
			}
		}
	})
}

func decodeSixel(t *testing.T, text string) map[image.Point]color.RGBA {
	t.Helper()
	body, ok := strings.CutPrefix(text, "\x1bPq")
	body, end := strings.CutSuffix(body, "\x1b\\\n")
	if !ok || !end {
		t.Fatalf("got %q, want a sixel string", text)
	}
	pixels := make(map[image.Point]color.RGBA)
	colours := make(map[int]color.RGBA)
	x, y, current, repeat := 0, 0, 0, 1
	for len(body) > 0 {
		c := body[0]
		body = body[1:]
		var numbers []int
		if strings.IndexByte(`"#!`, c) >= 0 {
			numbers, body = leadingNumbers(body)
		}
		switch {
		case c == '#' && len(numbers) == 5:
			colours[numbers[0]] = color.RGBA{uint8(numbers[2] * 255 / 100), uint8(numbers[3] * 255 / 100), uint8(numbers[4] * 255 / 100), 255}
		case c == '#':
			current = numbers[0]
		case c == '!':
			repeat = numbers[0]
		case c == '$':
			x = 0
		case c == '-':
			x, y = 0, y+6
		case c >= '?' && c <= '~':
			for ; repeat > 0; repeat-- {
				for bit := range 6 {
					if (c-'?')>>bit&1 == 1 {
						pixels[image.Pt(x, y+bit)] = colours[current]
					}
				}
				x++
			}
			repeat = 1
		}
	}
	return pixels
}

func leadingNumbers(s string) (numbers []int, rest string) {
	numbers = []int{0}
	for len(s) > 0 && (s[0] == ';' || s[0] >= '0' && s[0] <= '9') {
		if s[0] == ';' {
			numbers = append(numbers, 0)
		} else {
			numbers[len(numbers)-1] = numbers[len(numbers)-1]*10 + int(s[0]-'0')
		}
		s = s[1:]
	}
	return numbers, s
}

func TestImageDir_Update(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	a := &imageDir{}
	first := timeline.NewImageDisplay("image/png", []byte("one"), "figure 1", "")
	second := timeline.NewImageDisplay("image/jpeg", []byte("two"), "", "")
	update := timeline.NewImageDisplay("image/png", []byte("three"), "figure 1", "")
	update.Update = true
	var paths []string
	for _, i := range []timeline.Display{first, second, update} {
		path, err := a.saveImage(i)
		_, want, _ := i.ImageData()
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
		if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s holds %q, %v, want %q", path, data, err, want)
		}
	}
	if paths[0] != paths[2] || paths[0] == paths[1] {
		t.Errorf("got files %q, want the first and the last to be one", paths)
	}
	owners.WantFileMode(t, a.dir, 0o700)
	a.close()
	if _, err := os.Stat(a.dir); !os.IsNotExist(err) {
		t.Errorf("the directory was left behind: %v", err)
	}
}
