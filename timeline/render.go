package timeline

// RenderOptions say how a rendering is bounded and for whom it is made.
type RenderOptions struct {
	MaxChars   int    // budget for text, in characters; 0 = 20000
	OutputPath string // named in elisions; "" = not named
	Self       string // the reader: turns of other authors are labelled
}

// A Rendering is what a model reads.
type Rendering struct {
	Parts  []Part // text and images in order; adjacent text is one part
	Elided bool
	Chars  int
}

// A Part is text or an image: exactly one is set.
type Part struct {
	Text  string
	Image *Image
}

// Render makes events readable. nil means all defaults.
func Render(events []Event, opts *RenderOptions) Rendering { return Rendering{} }

// Text is all text joined, images as "[image: title, W x H, bytes]".
func (r Rendering) Text() string { return "" }
