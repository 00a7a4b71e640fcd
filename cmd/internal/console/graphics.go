package console

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color/palette"
	"image/draw"
	_ "image/gif"
	_ "image/jpeg"
	"image/png"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/pngrepair"
)

// ImageProtocol is a terminal's protocol for showing images.
type ImageProtocol uint8

const (
	NoImages    ImageProtocol = iota // the terminal shows none
	KittyImages                      // also Ghostty
	ITermImages                      // OSC 1337; also WezTerm and Visual Studio Code
	SixelImages                      // foot, mlterm, contour
)

// maxInlinePixels bounds the images that are shown, because an image of a few bytes can declare any
// number of pixels.
const maxInlinePixels = 40_000_000

// maxSixelPixels bounds the images that are worth encoding as sixels.
const maxSixelPixels = 4 << 20

// DetectImageProtocol derives from the environment which images the terminal can show. A
// multiplexer hides the terminal and does not pass images on.
func DetectImageProtocol(getenv func(string) string) ImageProtocol {
	name, program := getenv("TERM"), getenv("TERM_PROGRAM")
	switch {
	case getenv("TMUX") != "" || getenv("STY") != "" || getenv("ZELLIJ") != "":
		return NoImages
	case getenv("KITTY_WINDOW_ID") != "" || name == "xterm-kitty" || name == "xterm-ghostty" || program == "ghostty":
		return KittyImages
	case program == "iTerm.app" || program == "WezTerm" || program == "vscode":
		return ITermImages
	case strings.HasPrefix(name, "foot") || strings.HasPrefix(name, "mlterm") || strings.HasPrefix(name, "contour"):
		return SixelImages
	}
	return NoImages
}

// encodeInline returns the bytes that show an image, or "" if that is not possible.
func (p ImageProtocol) encodeInline(mime string, data []byte) string {
	if size, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil && size.Width > maxInlinePixels/max(1, size.Height) {
		return ""
	}
	data = pngrepair.Repair(data)
	switch p {
	case KittyImages:
		return encodeKitty(mime, data)
	case ITermImages:
		return fmt.Sprintf("\x1b]1337;File=inline=1;size=%d:%s\a\n", len(data), base64.StdEncoding.EncodeToString(data))
	case SixelImages:
		return encodeSixel(data)
	}
	return ""
}

// encodeKitty encodes an image as PNG, in chunks of at most 4096 characters. It returns "" if the
// image cannot be decoded.
func encodeKitty(mime string, data []byte) string {
	if mime != "image/png" {
		decoded, _, err := image.Decode(bytes.NewReader(data))
		if err != nil {
			return ""
		}
		var b bytes.Buffer
		if err := png.Encode(&b, decoded); err != nil {
			return ""
		}
		data = b.Bytes()
	}
	const chunk = 4096
	text := base64.StdEncoding.EncodeToString(data)
	control := "f=100,a=T,"
	var s strings.Builder
	for len(text) > chunk {
		fmt.Fprintf(&s, "\x1b_G%sm=1;%s\x1b\\", control, text[:chunk])
		text, control = text[chunk:], ""
	}
	fmt.Fprintf(&s, "\x1b_G%sm=0;%s\x1b\\\n", control, text)
	return s.String()
}

// encodeSixel encodes an image in bands of six rows, one colour after the other, in the 216
// web-safe colours. It returns "" for an image that cannot be decoded, or has more than
// maxSixelPixels.
func encodeSixel(data []byte) string {
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || config.Width*config.Height > maxSixelPixels {
		return ""
	}
	source, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return ""
	}
	bounds := image.Rect(0, 0, source.Bounds().Dx(), source.Bounds().Dy())
	onWhite := image.NewRGBA(bounds)
	draw.Draw(onWhite, bounds, image.White, image.Point{}, draw.Src)
	draw.Draw(onWhite, bounds, source, source.Bounds().Min, draw.Over)
	p := image.NewPaletted(bounds, palette.WebSafe)
	draw.FloydSteinberg.Draw(p, bounds, onWhite, image.Point{})

	var s strings.Builder
	fmt.Fprintf(&s, "\x1bPq\"1;1;%d;%d", bounds.Dx(), bounds.Dy())
	for i, c := range p.Palette {
		r, g, b, _ := c.RGBA()
		fmt.Fprintf(&s, "#%d;2;%d;%d;%d", i, r*100/0xffff, g*100/0xffff, b*100/0xffff)
	}
	for top := 0; top < bounds.Dy(); top += 6 {
		for _, colour := range paletteColors(p, top) {
			fmt.Fprintf(&s, "#%d", colour)
			band := make([]byte, bounds.Dx())
			for x := range band {
				band[x] = '?'
				for y := top; y < min(top+6, bounds.Dy()); y++ {
					if p.ColorIndexAt(x, y) == colour {
						band[x] += 1 << (y - top)
					}
				}
			}
			writeRuns(&s, band)
			s.WriteByte('$') // back to the left, for the next colour
		}
		s.WriteByte('-') // the next band
	}
	s.WriteString("\x1b\\\n")
	return s.String()
}

// paletteColors returns the colours in the band of six rows that begins at top.
func paletteColors(p *image.Paletted, top int) []uint8 {
	var used [256]bool
	for y := top; y < min(top+6, p.Rect.Dy()); y++ {
		for _, c := range p.Pix[y*p.Stride : y*p.Stride+p.Rect.Dx()] {
			used[c] = true
		}
	}
	var colours []uint8
	for c, ok := range used {
		if ok {
			colours = append(colours, uint8(c))
		}
	}
	return colours
}

// writeRuns writes a band in run-length encoding.
func writeRuns(s *strings.Builder, band []byte) {
	for i := 0; i < len(band); {
		n := 1
		for i+n < len(band) && band[i+n] == band[i] {
			n++
		}
		if n > 3 {
			fmt.Fprintf(s, "!%d%c", n, band[i])
		} else {
			s.Write(band[i : i+n])
		}
		i += n
	}
}
