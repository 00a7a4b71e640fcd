// Package foldedname finds names that a filesystem may treat as the same: by case, by invisible
// characters, by dots at the end, or as a short second name. A protected name must be protected
// under all of them, whatever filesystem the workspace is on. The package does not know which names
// are protected, and starts no goroutines.
package foldedname
