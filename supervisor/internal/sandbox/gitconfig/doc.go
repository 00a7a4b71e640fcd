// Package gitconfig decides which changes of a git config file a session may make. It compares two
// texts and reads no files. It parses only the form that git itself writes, and refuses a change
// that it could misunderstand.
//
// The package starts no goroutines.
package gitconfig
