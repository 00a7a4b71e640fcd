// Package describe describes a chart in one line: its kind, its size and its titles. It knows the
// JSON of Plotly, Vega and Bokeh, but no events. It starts no goroutines.
package describe
