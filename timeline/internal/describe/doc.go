// Package describe puts a chart into words: one line that says what is shown and how much of it. It
// starts no goroutines.
package describe
