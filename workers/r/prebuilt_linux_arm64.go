package r

import _ "embed"

//go:embed prebuilt/linux-arm64.so.gz
var compressedShim []byte
