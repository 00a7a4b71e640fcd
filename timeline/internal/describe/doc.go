// Package describe puts a chart into words: one line that says what is shown and how much of it. It
// knows the JSON of Plotly, Vega and Bokeh, and nothing of events. It starts no goroutines.
package describe
