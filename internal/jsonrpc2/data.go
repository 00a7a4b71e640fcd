package jsonrpc2

import (
	"bytes"
	"encoding/base64"
)

// minCutBytes is the size of an object from which CutData saves time.
const minCutBytes = 16 << 10

// CutData takes the base64 text of the field "data" out of a JSON object, and returns the rest, in
// which the field is empty, and the decoded data. A decoder of package encoding/json looks at each
// byte of a text several times, which made it the slowest part of a file transfer. ok is false for a
// small object, and for one in another form than encoding/json writes; then it is decoded as usual.
// object must be valid JSON.
func CutData(object []byte) (rest, data []byte, ok bool) {
	const field = `"data":"`
	at := bytes.Index(object, []byte(field))
	if len(object) < minCutBytes || at < 1 || object[at-1] != ',' && object[at-1] != '{' || bytes.IndexByte(object[1:at], '{') >= 0 {
		return nil, nil, false
	}
	begin := at + len(field)
	size := bytes.IndexByte(object[begin:], '"')
	if size < 0 {
		return nil, nil, false
	}
	data = make([]byte, base64.StdEncoding.DecodedLen(size))
	n, err := base64.StdEncoding.Decode(data, object[begin:begin+size]) // a backslash is an error, too
	if err != nil {
		return nil, nil, false
	}
	return append(append(make([]byte, 0, len(object)-size), object[:begin]...), object[begin+size:]...), data[:n], true
}
