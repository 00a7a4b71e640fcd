package r

import _ "embed"

//go:embed prebuilt/linux-amd64.so.gz
var compressedShim []byte
