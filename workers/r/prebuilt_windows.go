package r

import _ "embed"

// prebuilt is for x64, which Windows for ARM runs as well: it is R's architecture that
// counts.
//
//go:embed prebuilt/windows-amd64.dll
var prebuilt []byte
