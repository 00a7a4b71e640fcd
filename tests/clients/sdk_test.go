//go:build linux

package clients

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// An sdkClient is a client built with one of the TypeScript SDKs; see sdk.mjs.
type sdkClient struct {
	t      testing.TB
	in     io.Writer
	events chan sdkEvent // closed when the client has ended
	calls  int
}

// An sdkEvent is one message from the SDK client.
type sdkEvent struct {
	Connected      *string
	Progress       *int
	Value          float64
	Message        string
	Done, Failed   *int
	Result         sdkResult
	Error, OnError string
	Closed         bool
}

type sdkResult struct {
	Content []struct {
		Type, Text, MimeType string
		Data                 []byte
	}
	IsError bool
}

func (r sdkResult) joinText() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// connectSDK starts a client, which starts the server.
func connectSDK(t testing.TB, version string) *sdkClient {
	t.Helper()
	p := newTestHome(t)
	argv := nodeCommand(t, "sdk.mjs", append([]string{version, os.Getenv(clientsEnv)}, replCommand()...)...)
	cmd := p.newCommand(argv)
	cmd.Dir = ""
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &sdkClient{t: t, in: in, events: make(chan sdkEvent, 1000)}
	go func() {
		defer close(c.events)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var e sdkEvent
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("%v in %.200s", err, lines.Text())
			}
			c.events <- e
		}
	}()
	t.Cleanup(func() {
		c.sendOrder(jsonObject{"close": true})
		c.waitEvent("the client has closed", func(e sdkEvent) bool { return e.Closed })
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	e := c.waitEvent("the client has connected", func(e sdkEvent) bool { return e.Connected != nil })
	t.Logf("TypeScript SDK %s speaks %s", version, *e.Connected)
	return c
}

func (c *sdkClient) sendOrder(o jsonObject) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, encodeJSON(o)+"\n"); err != nil {
		c.t.Error(err)
	}
}

// waitEvent waits for an event. It reports errors of the SDK.
func (c *sdkClient) waitEvent(what string, is func(sdkEvent) bool) sdkEvent {
	c.t.Helper()
	late := time.After(testTimeout)
	for {
		select {
		case e, ok := <-c.events:
			if !ok {
				c.t.Fatalf("the client ended before %s", what)
			}
			if e.OnError != "" {
				c.t.Errorf("the SDK reported an error: %s", e.OnError)
			}
			if is(e) {
				return e
			}
		case <-late:
			c.t.Fatalf("timeout: %s", what)
		}
	}
}

func (c *sdkClient) startCall(k toolCall, options jsonObject) int {
	c.calls++
	c.sendOrder(jsonObject{"call": c.calls, "tool": k.tool, "arguments": k.arguments, "options": options, "progress": true})
	return c.calls
}

// waitCall waits for the end of a call.
func (c *sdkClient) waitCall(id int) sdkEvent {
	c.t.Helper()
	return c.waitEvent("the call has ended", func(e sdkEvent) bool {
		return e.Done != nil && *e.Done == id || e.Failed != nil && *e.Failed == id
	})
}

// runCode runs code and returns its result.
func (c *sdkClient) runCode(code string) sdkResult {
	c.t.Helper()
	e := c.waitCall(c.startCall(replCall(code), nil))
	if e.Failed != nil || e.Result.IsError {
		c.t.Fatalf("%q failed: %s%s", code, e.Error, e.Result.joinText())
	}
	return e.Result
}

func (c *sdkClient) wantReply(code, want string) {
	c.t.Helper()
	if got := c.runCode(code).joinText(); got != want {
		c.t.Errorf("%q: got %q, want %q", code, got, want)
	}
}

func eachSDK(t *testing.T, f func(t *testing.T, c *sdkClient)) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel() // waiting takes most of the time
			f(t, connectSDK(t, version))
		})
	}
}

func TestSDK(t *testing.T) {
	t.Run("keeps state and answers input requests", func(t *testing.T) {
		eachSDK(t, func(t *testing.T, c *sdkClient) {
			if got := c.runCode("x = 6 * 7").joinText(); !strings.HasPrefix(got, "[sandbox workspace: it writes ") {
				t.Errorf("the first reply is %q, want the session's sandbox", got)
			}
			c.wantReply("x", "42")
			c.wantReply("name = input('name? ')", `[waiting for input: "name? "]`)
			if got := c.runCode("Ada").joinText(); !strings.HasPrefix(got, "[done") || !strings.HasSuffix(got, ", no output]") {
				t.Errorf("got %q, want a completed call", got)
			}
			c.wantReply("name", "'Ada'")
		})
	})

	t.Run("receives images", func(t *testing.T) {
		eachSDK(t, func(t *testing.T, c *sdkClient) {
			r := c.runCode("import matplotlib.pyplot as plt\n_ = plt.plot([1, 4, 9])\nplt.show()")
			if len(r.Content) != 2 || r.Content[1].MimeType != "image/png" || len(r.Content[1].Data) == 0 {
				t.Errorf("got %q and %d blocks", r.joinText(), len(r.Content))
			}
		})
	})

	t.Run("receives progress that keeps the call alive", func(t *testing.T) {
		eachSDK(t, func(t *testing.T, c *sdkClient) {
			id := c.startCall(replCall(sevenSecondsCode), jsonObject{"timeout": 5500, "resetTimeoutOnProgress": true})
			last, count := 0.0, 0
			e := c.waitEvent("the call has ended", func(e sdkEvent) bool {
				if e.Progress != nil {
					if count++; e.Value <= last {
						t.Errorf("progress %v after %v", e.Value, last)
					}
					last = e.Value
				}
				return e.Done != nil || e.Failed != nil
			})
			if e.Done == nil || *e.Done != id || !strings.HasSuffix(e.Result.joinText(), "13") {
				t.Errorf("got %+v", e)
			}
			if count < 2 {
				t.Errorf("got progress %d times in 7 s", count)
			}
		})
	})

	t.Run("interrupts on cancel and returns the output later", func(t *testing.T) {
		const code = "import time\nprint('so far', flush=True)\ntime.sleep(600)"
		for name, options := range map[string]jsonObject{"abort": nil, "timeout": {"timeout": 2000}} {
			t.Run(name, func(t *testing.T) {
				eachSDK(t, func(t *testing.T, c *sdkClient) {
					c.runCode("x = 42")
					id := c.startCall(replCall(code), options)
					c.waitStarted(id)
					if options == nil {
						c.sendOrder(jsonObject{"abort": id})
					}
					if e := c.waitCall(id); e.Failed == nil {
						t.Errorf("the call was answered: %+v", e)
					}
					got := c.runCode("print('x is', x)").joinText()
					t.Logf("%q", got)
					for _, want := range []string{"so far\n", "KeyboardInterrupt\n", "x is 42"} {
						if !strings.Contains(got, want) {
							t.Errorf("the next reply is %q, want %q in it", got, want)
						}
					}
				})
			})
		}
	})

	t.Run("reports to a second call what is running", func(t *testing.T) {
		eachSDK(t, func(t *testing.T, c *sdkClient) {
			first := c.startCall(replCall("import time\nprint('so far', flush=True)\ntime.sleep(600)"), nil)
			c.waitStarted(first)
			got := c.waitCall(c.startCall(toolCall{tool: "repl", arguments: jsonObject{"input": "1 + 1", "timeout_ms": 1}}, nil)).Result.joinText()
			for _, want := range []string{"[your input was NOT run: an earlier call is not answered yet; running ", "repl_interrupt"} {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
			second := c.startCall(toolCall{tool: "repl_interrupt", arguments: jsonObject{}}, nil)
			ended := map[int]sdkEvent{}
			for len(ended) < 2 {
				e := c.waitEvent("both calls have ended", func(e sdkEvent) bool { return e.Done != nil })
				ended[*e.Done] = e
			}
			t.Logf("%q, %q", ended[first].Result.joinText(), ended[second].Result.joinText())
		})
	})
}

// sevenSecondsCode is code that runs long enough for progress reports, and then ends.
const sevenSecondsCode = "import time\nfor i in range(14):\n    print(i, flush=True)\n    time.sleep(0.5)"

// waitStarted waits for progress, which shows that slow code has printed.
func (c *sdkClient) waitStarted(id int) {
	c.t.Helper()
	c.waitEvent("the code has printed", func(e sdkEvent) bool {
		return e.Progress != nil && *e.Progress == id && strings.Contains(e.Message, "bytes so far")
	})
}
