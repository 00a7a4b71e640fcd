// Package foldedname finds names that a filesystem may treat as the same: by case, by invisible
// characters, by dots at the end, or as a short second name. On any filesystem, a protected name
// must be protected under all of these names. The package does not know which names are protected,
// and starts no goroutines.
package foldedname
