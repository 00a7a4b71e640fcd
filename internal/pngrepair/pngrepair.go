// Package pngrepair makes a damaged PNG acceptable to strict readers. It starts no goroutines.
package pngrepair

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

const (
	pngSignature     = "\x89PNG\r\n\x1a\n"
	pngChunkOverhead = 12 // bytes of a chunk besides its data: length, kind, checksum
)

// Repair returns a PNG without ancillary chunks, such as the colour profile, whose checksum
// is wrong. Browsers show such an image, but strict readers reject it. Other data is returned
// unchanged. (PNG specification, third edition, 5.4 and 13.2.)
func Repair(data []byte) []byte {
	if !bytes.HasPrefix(data, []byte(pngSignature)) {
		return data
	}
	var mended []byte // nil until a chunk is removed
	for at := len(pngSignature); len(data)-at >= pngChunkOverhead; {
		length := int64(binary.BigEndian.Uint32(data[at:]))
		if length > int64(len(data)-at-pngChunkOverhead) {
			break // truncated, which cannot be repaired
		}
		chunk := data[at : at+pngChunkOverhead+int(length)]
		kind, sum := chunk[4:8], binary.BigEndian.Uint32(chunk[len(chunk)-4:])
		ancillary := kind[0]&0x20 != 0
		switch wrong := ancillary && crc32.ChecksumIEEE(chunk[4:len(chunk)-4]) != sum; {
		case wrong && mended == nil:
			mended = bytes.Clone(data[:at])
		case !wrong && mended != nil:
			mended = append(mended, chunk...)
		}
		at += len(chunk)
		if at == len(data) && mended != nil {
			return mended
		}
	}
	return data
}
