//go:build !linux

package sandboxcheck

// WhyNoNamespaces returns "": only Linux has namespaces.
func WhyNoNamespaces() string { return "" }

// WhyNoLayers returns "": only Linux has overlays.
func WhyNoLayers(string) string { return "" }
