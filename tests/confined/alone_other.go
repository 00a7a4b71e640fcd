//go:build !linux

package confined

// WhyNoNamespaces says nothing: no other system has them.
func WhyNoNamespaces() string { return "" }

// WhyNoLayers says nothing, likewise.
func WhyNoLayers(string) string { return "" }
