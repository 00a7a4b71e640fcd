package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// An album keeps the pictures of a session as files, in a private directory that is
// removed with it, and shows them if the terminal can. It is for one goroutine.
type album struct {
	graphics Graphics
	dir      string // "" until the first picture
	count    int
	updates  map[string]string // files by the ID of their display
}

// add keeps a picture and returns the text that shows it.
func (a *album) add(d timeline.Display) string {
	mime, data, _ := d.ImageData()
	path, err := a.save(d)
	if err != nil {
		return fmt.Sprintf("[a picture could not be kept: %v]\n", err)
	}
	return a.graphics.inline(mime, data) + fmt.Sprintf("[picture: %s, until this session ends]\n", path)
}

// save writes a picture to a new file, or to the file of the picture that it updates.
func (a *album) save(d timeline.Display) (string, error) {
	mime, data, _ := d.ImageData()
	if a.dir == "" {
		dir, err := os.MkdirTemp("", "turnstone-pictures-") // mode 0700
		if err != nil {
			return "", err
		}
		a.dir, a.updates = dir, make(map[string]string)
	}
	path := a.updates[d.ID]
	if path == "" || !d.Update {
		a.count++
		path = filepath.Join(a.dir, fmt.Sprintf("%d.%s", a.count, PictureExtension(mime)))
	}
	if d.ID != "" {
		a.updates[d.ID] = path
	}
	return path, os.WriteFile(path, data, 0o600)
}

// close removes the files.
func (a *album) close() {
	if a.dir != "" {
		_ = os.RemoveAll(a.dir)
	}
}

// PictureExtension returns the usual file extension for a type of picture.
func PictureExtension(mime string) string {
	_, kind, _ := strings.Cut(mime, "/")
	switch kind {
	case "png", "gif", "webp":
		return kind
	case "jpeg":
		return "jpg"
	case "svg+xml":
		return "svg"
	}
	return "picture"
}
