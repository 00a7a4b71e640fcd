package r

import _ "embed"

// compressedShim is for x64. Windows for ARM runs it as well, in an R for x64.
//
//go:embed prebuilt/windows-amd64.dll.gz
var compressedShim []byte
