// Package redact replaces secrets in text, in the forms in which programs usually repeat them, even
// if the text comes in pieces. It knows nothing of events: package timeline decides which of their
// fields are text, and when a held-back end is final.
//
// It starts no goroutines, and its types are not safe for concurrent use.
//
// # Redaction in the log
//
// A user types a password past the model, and the model's next input is p: the reply has the
// password. Code must have it, so code that wants to reveal it can. But most leaks are accidents,
// such as a traceback or a URL. So the log redacts secrets, because all output enters there. Ten
// places and files show output; one of them would be forgotten. In the worker, each language would
// have its own code, and the output of child processes would pass by. A hash cannot find a text of
// any length in a stream. Only later text releases a held-back end; a clock would be a guess.
package redact
