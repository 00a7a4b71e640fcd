// Package render turns the events of a session into the text and the images that a model reads,
// within a budget. It folds what repeats, and says what it left out and where that is.
package render
