// Package redact replaces secrets in text, in the forms in which programs usually repeat them, even
// if the text comes in pieces. It knows nothing of events. Package timeline decides which of their
// fields are text, and when a held-back end is final.
//
// It starts no goroutines, and its types are not safe for concurrent use.
//
// # Redaction in the log
//
// A user types a password past the model. If the model's next input is the name of the variable,
// the reply has the password. Code needs the password, so code that wants to reveal it can. But
// most leaks are accidents, such as a traceback or a URL. So the log redacts secrets, because all
// output enters there. Output that ends with a possible beginning of a secret is held back until
// later text decides.
//
// Redaction in each front end was rejected: ten places and files show output, and one of them would
// be forgotten. Redaction in the worker was rejected. Each language would need its own code, and
// the output of child processes does not pass through the worker. Storing only hashes was rejected,
// because a hash cannot find a text of any length in a stream. A time limit for held-back text was
// rejected, because it would be a guess.
package redact
