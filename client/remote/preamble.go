package remote

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

const (
	// maxPreambleBytes bounds the foreign output of a command, in bytes: before the greeting,
	// and between lines of the daemon.
	maxPreambleBytes = 64 << 10

	// maxQuotedBytes bounds how much of that output an error quotes.
	maxQuotedBytes = 1 << 10
)

// A preamble is the output before the greeting.
type preamble struct {
	bytes int
	text  []byte // its end
}

// awaitGreeting reads up to the greeting.
func (p *preamble) awaitGreeting(in *bufio.Reader, nonce string) (Greeting, error) {
	for {
		line, err := readLine(in)
		if err == nil {
			if g, ok, err := parseGreeting(line, nonce); ok {
				return g, err
			}
		}
		p.bytes += len(line)
		p.text = append(p.text, line...)
		p.text = p.text[max(0, len(p.text)-maxQuotedBytes):]
		switch {
		case err != nil:
			return Greeting{}, err
		case p.bytes > maxPreambleBytes:
			return Greeting{}, fmt.Errorf("it printed more than %d bytes, but no greeting of repl bridge", maxPreambleBytes)
		}
	}
}

func (p *preamble) lastText() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(p.text), "?"))
}

// readLine reads a line, up to the maximum length of a greeting.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxGreetingBytes {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return string(line), err
		}
	}
}
