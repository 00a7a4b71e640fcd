//go:build !linux

package sandboxcheck

// WhyNoNamespaces says nothing: no other system has them.
func WhyNoNamespaces() string { return "" }

// WhyNoLayers says nothing, likewise.
func WhyNoLayers(string) string { return "" }
