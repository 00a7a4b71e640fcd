// Package redact removes logins from the texts of settings files, scripts and R profiles, so that a
// session can see the rest. A login is recognized by its name, by its own form, or by its position in
// an address. The package touches no files, and does not know where a text is from. It starts no
// goroutines.
package redact
