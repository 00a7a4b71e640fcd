//go:build !linux

package confined

// NoNamespaces says nothing: no other system has them.
func NoNamespaces() string { return "" }

// NoLayers says nothing, likewise.
func NoLayers(string) string { return "" }
