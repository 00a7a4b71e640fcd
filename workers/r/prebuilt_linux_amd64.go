package r

import _ "embed"

//go:embed prebuilt/linux-amd64.so
var prebuilt []byte
