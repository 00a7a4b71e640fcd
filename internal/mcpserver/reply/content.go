package reply

import (
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// content collects the blocks of a result and counts its images.
type content struct {
	blocks      []mcp.Content
	images      int
	namedImages int // images that are not shown
	bytes       int // of the shown images

	readingTime time.Duration // spent on decoding images

	noImages bool // no image may be shown
}

// addLine adds text on a new line.
func (c *content) addLine(text string) { c.blocks = AddLine(c.blocks, text) }

// AddLine adds text on a new line to the content of a result.
func AddLine(blocks []mcp.Content, text string) []mcp.Content {
	text = strings.TrimSuffix(text, "\n")
	if n := len(blocks); n > 0 {
		if last, ok := blocks[n-1].(*mcp.TextContent); ok {
			last.Text += "\n" + text
			return blocks
		}
	}
	return append(blocks, &mcp.TextContent{Text: text})
}

// trimPrompt removes a prompt from the end. A prompt that was read from a screen has no blanks at its
// end.
func (c *content) trimPrompt(prompt string) {
	n := len(c.blocks)
	if n == 0 {
		return
	}
	last, ok := c.blocks[n-1].(*mcp.TextContent)
	if !ok {
		return
	}
	if text, ok := strings.CutSuffix(last.Text, prompt); ok {
		last.Text = text
	} else if text, ok := strings.CutSuffix(strings.TrimRight(last.Text, " "), prompt); ok {
		last.Text = text
	}
	if last.Text == "" {
		c.blocks = c.blocks[:n-1]
	}
	last.Text = strings.TrimSuffix(last.Text, "\n")
}
