package pngrepair_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/pngrepair"
)

// pngChunk returns a chunk of a PNG, whose checksum is wrong by off.
func pngChunk(kind, data string, off uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(b, kind+data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:])+off)
}

func TestRepair(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	plain := b.Bytes()
	const head = 8 + 12 + 13 // the signature and IHDR
	with := func(chunks ...[]byte) []byte {
		return bytes.Join([][]byte{plain[:head], bytes.Join(chunks, nil), plain[head:]}, nil)
	}
	good, bad := pngChunk("gAMA", "\x00\x00\xb1\x8f", 0), pngChunk("iCCP", "profile", 1)
	for name, one := range map[string]struct{ data, want []byte }{
		"nothing wrong":    {with(good), with(good)},
		"a wrong profile":  {with(good, bad, good), with(good, good)},
		"two wrong chunks": {with(bad, bad), plain},
		"no PNG":           {[]byte("GIF89a"), []byte("GIF89a")},
		"empty":            {nil, nil},
		"cut off":          {with(bad)[:head+20], with(bad)[:head+20]},
	} {
		got := pngrepair.Repair(one.data)
		if !bytes.Equal(got, one.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if _, err := png.Decode(bytes.NewReader(pngrepair.Repair(with(bad)))); err != nil {
		t.Errorf("the repaired image cannot be read: %v", err)
	}
	critical := bytes.Clone(plain)
	critical[head-1]++
	if !bytes.Equal(pngrepair.Repair(critical), critical) {
		t.Error("an invalid header was removed")
	}
}
