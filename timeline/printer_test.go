package timeline

import (
	"strings"
	"testing"
)

func BenchmarkPrinter(b *testing.B) {
	kinds := map[string]string{
		"plain":    strings.Repeat("0123456789abcdef", 5)[:79] + "\n",
		"crlf":     strings.Repeat("0123456789abcdef", 5)[:78] + "\r\n",
		"colour":   "\x1b[32m" + strings.Repeat("0123456789abcdef", 5)[:70] + "\x1b[0m\n",
		"utf8":     strings.Repeat("äöü€ abc ", 8) + "\n",
		"progress": "\r 10%|███████             | 10/100 [00:01<00:09, 9.9it/s]",
	}
	for name, line := range kinds {
		b.Run(name, func(b *testing.B) {
			data := []byte(strings.Repeat(line, 65536/len(line)))
			var p printer
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				p.out = p.out[:0]
				p.write(Stdout, data)
			}
		})
	}
}
