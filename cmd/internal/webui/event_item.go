package webui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif" // formats whose size is checked before a browser decodes them
	_ "image/jpeg"
	_ "image/png"
	"maps"
	"net/url"
	"slices"
	"strings"

	_ "golang.org/x/image/webp"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxImagePixels bounds an image that is shown inline. A larger image is offered as a file,
	// because the browser needs 4 bytes for each pixel to decode it.
	maxImagePixels = 40_000_000

	// maxInlineBytes bounds the data of a result, in bytes, that is inspected while a turn is read.
	maxInlineBytes = 256 << 10

	// maxTextBytes bounds the text of a result that is sent with its event.
	maxTextBytes = 64 << 10

	// maxParts bounds the number of types of one result that are offered.
	maxParts = 32
)

// An eventItem is an event of the timeline for the browser, with the parts of its result listed separately.
type eventItem struct {
	Event timeline.Event `json:"e"`
	Parts []displayPart  `json:"parts,omitempty"`
}

// A displayPart is a result in one of its MIME types. The browser shows the first part that it can.
type displayPart struct {
	MIME  string `json:"mime"`
	Bytes int64  `json:"bytes"`
	URL   string `json:"url"` // of the data, as a file

	Image    bool   `json:"image,omitempty"` // a browser shows URL as an image
	Width    int    `json:"width,omitempty"` // pixels; 0 when not known
	Height   int    `json:"height,omitempty"`
	TooLarge bool   `json:"too_large,omitempty"` // too many pixels to show
	Frame    string `json:"frame,omitempty"`     // the address of a document for a frame
	Rows     int    `json:"rows,omitempty"`      // estimated rows of the tables in it
	Scripts  bool   `json:"scripts,omitempty"`   // the document has scripts or frames
	Themed   bool   `json:"themed,omitempty"`    // the document takes the colours of the web UI
	Chart    string `json:"chart,omitempty"`     // the end of the addresses of a chart that a known library may draw
	Text     string `json:"text,omitempty"`      // the text of a part that is shown as text

	Table *session.Table `json:"table,omitempty"` // the first rows of a data frame
}

// newEventItem returns an event with the addresses of its results in place of their data.
func newEventItem(name string, e timeline.Event) eventItem {
	d, ok := e.Body.(timeline.Display)
	if !ok {
		return eventItem{Event: e}
	}
	i := eventItem{}
	for n, kind := range displayTypes(d) {
		p := displayPart{MIME: kind, Bytes: d.Omitted[kind].Bytes + int64(len(d.Data[kind]))}
		address := fmt.Sprintf("/%s/%d/%d", url.PathEscape(name), e.Seq, n)
		p.URL = "/blob" + address
		p.describeData(d, "/frame"+address)
		i.Parts = append(i.Parts, p)
	}
	d.Data, d.Omitted, d.Meta = nil, nil, nil
	e.Body = d
	i.Event = e
	return i
}

// displayTypes returns the types of a result in a fixed order, the most readable type first.
func displayTypes(d timeline.Display) []string {
	all := slices.Collect(maps.Keys(d.Data))
	for kind := range d.Omitted {
		if _, there := d.Data[kind]; !there {
			all = append(all, kind)
		}
	}
	if len(all) > 1 { // the page shows a widget as text
		all = slices.DeleteFunc(all, func(kind string) bool { return kind == timeline.MIMEWidget })
	}
	rank := func(kind string) int {
		order := []string{"text/html", "image/svg+xml", "image/png", "image/jpeg", "image/webp", "image/gif", "text/markdown"}
		if at := slices.Index(order, kind); at >= 0 {
			return at
		}
		if isChart(kind) {
			return len(order)
		}
		switch kind {
		case "text/latex":
			return len(order) + 1
		case "text/plain":
			return len(order) + 3
		}
		return len(order) + 2
	}
	slices.SortFunc(all, func(a, b string) int {
		if by := rank(a) - rank(b); by != 0 {
			return by
		}
		return strings.Compare(a, b)
	})
	return all[:min(len(all), maxParts)]
}

// isChart reports whether a type is a chart specification, such as Vega-Lite's.
func isChart(kind string) bool {
	return strings.HasPrefix(kind, "application/vnd.") && (strings.Contains(kind, "plotly") || strings.Contains(kind, "vega") || strings.Contains(kind, "bokeh"))
}

// describeData records how a part can be shown, judging by its data.
func (p *displayPart) describeData(d timeline.Display, frame string) {
	data := d.Data[p.MIME]
	switch {
	case slices.Contains(imageTypes(), p.MIME):
		p.Image = true
		p.measureImage(data)
	case p.MIME == "text/html":
		p.Frame = frame
		low := bytes.ToLower(data)
		p.Rows = bytes.Count(low, []byte("<tr")) + bytes.Count(low, []byte("<p")) + bytes.Count(low, []byte("<li"))
		p.Scripts = bytes.Contains(low, []byte("<script")) || bytes.Contains(low, []byte("<iframe")) || data == nil
		p.Themed = isThemed(data)
	case p.MIME == timeline.MIMETable:
		p.Table, _ = session.DecodeTable(data) // user code may have sent anything; then other types are shown
	case p.MIME == "image/svg+xml":
		p.Frame = frame
	case isChart(p.MIME):
		if library := libraryOf(p.MIME); isVega(library) || library != "" && d.LibraryFiles(p.MIME) != nil {
			p.Chart = strings.TrimPrefix(frame, "/frame")
		}
		p.Text = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(d.Text(), "["), "]"), "; repl view shows it")
	case p.MIME == "application/json":
		var pretty bytes.Buffer
		if json.Indent(&pretty, data, "", "  ") == nil {
			data = pretty.Bytes()
		}
		p.Text = decodeText(data)
	case strings.HasPrefix(p.MIME, "text/"):
		p.Text = decodeText(data)
	}
}

func decodeText(data []byte) string {
	text := strings.ToValidUTF8(string(data[:min(len(data), maxTextBytes)]), "\uFFFD")
	if len(data) > maxTextBytes {
		text += "\n… the file has the rest"
	}
	return text
}

// isThemed reports whether HTML is a plain table of pandas or polars, which takes the colours
// of the web UI. Other HTML was made for a white background.
func isThemed(html []byte) bool {
	return bytes.Contains(html, []byte(`class="dataframe"`)) && !bytes.Contains(html, []byte("color"))
}

// measureImage reads the size of an image from its header.
func (p *displayPart) measureImage(data []byte) {
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return
	}
	p.Width, p.Height = config.Width, config.Height
	p.TooLarge = config.Width > maxImagePixels/max(1, config.Height)
}

// imageTypes returns the MIME types that a browser shows as an image.
func imageTypes() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }
