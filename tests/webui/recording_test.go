//go:build unix

package webui

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// maxRecordingBytes bounds the recording of the README, in bytes, because each view of the page
// loads it.
const maxRecordingBytes = 400 << 10

// GitHub shows the recording as an image, in which no script runs.
func TestReadmeRecording(t *testing.T) {
	t.Parallel()
	path, err := filepath.Abs("../../docs/recording/story.svg")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) > maxRecordingBytes || bytes.Contains(data, []byte("<script")) {
		t.Fatalf("got %d bytes, %v", len(data), err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil || !bytes.Contains(readme, []byte("](docs/recording/story.svg)")) {
		t.Errorf("the README does not contain it: %v", err)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, []byte(`<img src="file://`+path+`">`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openTab(t)
	b.openAddress("file://" + page)
	b.waitUntil("it is shown", `document.querySelector("img").naturalWidth > 0`)
	seen := make(map[string]bool)
	for start := time.Now(); len(seen) < 3; { // the prompt comes first, followed by the typed text
		if time.Since(start) > testTimeout {
			t.Fatalf("it shows only %d images", len(seen))
		}
		screenshot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		seen[string(screenshot)] = true
	}
	b.takeScreenshot("recording")
}
