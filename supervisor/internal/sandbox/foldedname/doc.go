// Package foldedname says which names a filesystem may take for the same: by case, by invisible
// characters, by dots at the end, or as a short second name. A name that is protected must be
// protected under all of them, whatever filesystem the workspace is on. The package does not know which
// names are protected, and starts no goroutines.
package foldedname
