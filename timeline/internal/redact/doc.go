// Package redact replaces secrets in text, in the forms in which programs usually repeat them, even
// if the text comes in pieces. It knows nothing of events: package timeline decides which of their
// fields are text, and when a held-back end is final.
//
// It starts no goroutines, and its types are not safe for concurrent use.
package redact
