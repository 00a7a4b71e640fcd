package cmdkit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// AskUser prints a question and reads the answer, one line, without surrounding spaces. It fails if there is
// no line. It must be called once only, because it may read further lines and drop them.
func AskUser(s Streams, question string) (string, error) {
	fmt.Fprint(s.Err, question)
	line, err := bufio.NewReader(s.In).ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// IsYes reports whether an answer to a question [y/N] agrees.
func IsYes(answer string) bool { return slices.Contains([]string{"y", "yes"}, strings.ToLower(answer)) }
