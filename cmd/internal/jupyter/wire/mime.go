package wire

import "strings"

// IsJSON reports whether messages contain data of a MIME type as JSON, not as a string.
func IsJSON(mime string) bool {
	return mime == "application/json" || strings.HasSuffix(mime, "+json")
}

// IsBinary reports whether messages contain data of a MIME type in base64.
func IsBinary(mime string) bool {
	family, name, _ := strings.Cut(mime, "/")
	switch family {
	case "image", "audio", "video", "font":
		return !strings.HasSuffix(name, "+xml")
	}
	return mime == "application/pdf" || mime == "application/octet-stream"
}
