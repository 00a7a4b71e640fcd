//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The examples in docs/daemon-protocol.md are real exchanges over the socket.
func TestDaemonPage_Examples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "daemon-protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```text\n(> .*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 6 {
		t.Fatalf("the page has %d examples", len(blocks))
	}
	for i, block := range blocks {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Parallel()
			h := withTinyPackage(t, newDaemonHome(t)) // its pip reaches nothing
			h.startDaemon(t)
			conn, err := net.Dial("unix", h.socket())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(testTimeout / 3)) // shorter than the daemon's own deadline
			lines := bufio.NewScanner(conn)
			lines.Buffer(nil, 1<<20)
			for example := range strings.Lines(block[1]) {
				example = strings.TrimSuffix(example, "\n")
				if sent, ok := strings.CutPrefix(example, "> "); ok {
					if _, err := fmt.Fprintln(conn, sent); err != nil {
						t.Fatal(err)
					}
					continue
				}
				pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimPrefix(example, "< ")), "…", ".*")
				shown := regexp.MustCompile("^" + pattern + "$")
				came := ""
				for {
					if !lines.Scan() {
						t.Fatalf("%s does not come, but\n%s(%v)", example, came, lines.Err())
					}
					if shown.MatchString(lines.Text()) {
						break
					}
					came += lines.Text() + "\n"
				}
			}
		})
	}
}
