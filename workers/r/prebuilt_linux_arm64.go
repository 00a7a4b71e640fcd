package r

import _ "embed"

//go:embed prebuilt/linux-arm64.so
var prebuilt []byte
