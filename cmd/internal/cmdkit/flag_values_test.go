package cmdkit

import "testing"

func TestByteSize(t *testing.T) {
	for text, want := range map[string]struct {
		bytes int64
		back  string
	}{
		"8G": {8 << 30, "8G"}, "512m": {512 << 20, "512M"}, "1.5GiB": {1536 << 20, "1536M"}, "2 TB": {2 << 40, "2T"},
		"1000": {1000, "1000"}, "64KB": {64 << 10, "64K"}, "0": {}, "": {}, "8X": {}, "-1G": {}, "G": {}, "nan": {}, "1e99T": {}, "infG": {},
	} {
		var s ByteSize
		err := s.Set(text)
		if (err == nil) != (want.bytes > 0) || int64(s) != want.bytes || s.String() != want.back {
			t.Errorf("%q: got %d %q, %v; want %+v", text, s, s.String(), err, want)
		}
	}
}
