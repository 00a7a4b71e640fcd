// Package describe turns a chart into one line of text, which names what is shown and how much of
// it. It knows the JSON of Plotly, Vega and Bokeh, and nothing of events. It starts no goroutines.
package describe
