// Package render turns the events of a session into the text and the images that a model reads,
// within a budget. It folds what repeats, shortens what readers skip, such as the frames of a
// traceback, and reports what it left out and where to find it.
//
// It does not know where the events come from, and reads no files. It starts no goroutines.
package render
