package console

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// An imageDir saves the images of a session as files, and shows them if the terminal can. close
// removes the files. It is for one goroutine.
type imageDir struct {
	protocol    ImageProtocol
	dir         string // "" until the first image
	count       int
	byDisplayID map[string]string // files by the ID of their display
}

// addImage saves an image and returns the text that shows it.
func (i *imageDir) addImage(d timeline.Display) string {
	mime, data, _ := d.ImageData()
	path, err := i.saveImage(d)
	if err != nil {
		return fmt.Sprintf("[the image was not saved: %v]\n", err)
	}
	return i.protocol.encodeInline(mime, data) + fmt.Sprintf("[image: %s, until this session ends]\n", path)
}

// saveImage writes an image to a new file, or to the file of the image that it updates.
func (i *imageDir) saveImage(d timeline.Display) (string, error) {
	mime, data, _ := d.ImageData()
	if i.dir == "" {
		dir, err := os.MkdirTemp("", "turnstone-images-") // mode 0700
		if err != nil {
			return "", err
		}
		i.dir, i.byDisplayID = dir, make(map[string]string)
	}
	path := i.byDisplayID[d.ID]
	if path == "" || !d.Update {
		i.count++
		path = filepath.Join(i.dir, fmt.Sprintf("%d.%s", i.count, ImageExtension(mime)))
	}
	if d.ID != "" {
		i.byDisplayID[d.ID] = path
	}
	return path, os.WriteFile(path, data, 0o600)
}

// close removes the files.
func (i *imageDir) close() {
	if i.dir != "" {
		_ = os.RemoveAll(i.dir)
	}
}

// ImageExtension returns the common file extension for an image type.
func ImageExtension(mime string) string {
	_, kind, _ := strings.Cut(mime, "/")
	switch kind {
	case "png", "gif", "webp":
		return kind
	case "jpeg":
		return "jpg"
	case "svg+xml":
		return "svg"
	}
	return "image"
}
