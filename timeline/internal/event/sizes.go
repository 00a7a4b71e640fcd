package event

// The cost of an event beyond its content, in memory and in a Window.
const (
	memoryOverheadBytes = 200
	windowOverheadBytes = 16
)

// ContentBytes returns the size of text and displays.
func ContentBytes(b Body) int64 {
	switch b := b.(type) {
	case Text:
		return int64(len(b.Data))
	case Display:
		return b.TotalBytes()
	}
	return 0
}

// MemoryBytes returns the memory that an event uses.
func MemoryBytes(b Body) int64 { return memoryOverheadBytes + PayloadBytes(b) }

// WindowCost returns the part of a Window's budget that an event uses. An image costs less than its
// bytes, so that it is shown whole next to long text. Of other displays only the text is shown. An
// input costs nothing because it is not shown. An error message costs nothing because it repeats
// output: a long one must not use up the budget.
func WindowCost(b Body) int64 {
	switch b := b.(type) {
	case Display:
		return windowOverheadBytes + displayCost(b)
	case TurnStarted, TurnEnded:
		return windowOverheadBytes
	}
	return windowOverheadBytes + PayloadBytes(b)
}

func displayCost(d Display) int64 {
	for _, mime := range imageTypes {
		if n, ok := d.sizeOf(mime); ok {
			return 2048 + n/64
		}
	}
	if d.Result {
		return 0
	}
	plain, _ := d.sizeOf(mimePlain)
	markdown, _ := d.sizeOf(mimeMarkdown)
	return max(plain, min(markdown, maxMarkdownBytes))
}
