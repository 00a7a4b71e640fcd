//go:build linux

package mcpclient

import (
	"strings"
	"testing"
	"time"
)

func TestOddServers(t *testing.T) {
	t.Parallel()

	t.Run("hostile tools are called or skipped", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "hostile"))
		wantOutput(t, r, "import turnstone; from turnstone.tools import hostile; print(6 * 7)", "42")
		wantOutput(t, r, "dir(hostile)", "'fine'", "'recursive'")
		wantOutput(t, r, "hostile.fine(), hostile['ﬁle'](), hostile['file']()", "('ran fine', 'ran ﬁle', 'ran file')")
		wantOutput(t, r, "hostile['e\u0301t\u00e9'](), hostile['\u00e9te\u0301']()", "('ran e\u0301t\u00e9', 'ran \u00e9te\u0301')")
		wantOutput(t, r, "hostile['__class__'](), type(hostile).__name__ != 'str', hasattr(hostile, 'nope')", "'ran __class__', True, False")
		wantOutput(t, r, "hostile.recursive(node={'next': {'next': {}}}), hostile.itself(), hostile.schemaless()", "'ran recursive', 'ran itself', 'ran schemaless'")
		wantOutput(t, r, "hostile.keywords('a', **{'class': 1, 'a-b': 1, 'a_b': 2}), hostile.keywords(from_='a', self=2)", "('ran keywords', 'ran keywords')")
		wantOutput(t, r, "hostile.keywords(1)", "TypeError: hostile.keywords: wrong arguments: from is an integer, not string")
		wantOutput(t, r, "hostile.wrong_output(), hostile.odd_output()", "{'n': 'many'}", "ran odd_output")
		wantOutput(t, r, "help(hostile.described); help(hostile.keywords); help(hostile.recursive)", "import os")
		wantOutput(t, r, "import inspect; n = 0\nfor name in dir(hostile): n += callable(getattr(hostile, name)) and bool(inspect.signature(getattr(hostile, name)))\nn > 10", "True")
		wantOutput(t, r, "text = '\\n'.join(turnstone.search('', limit=20)); '\\x1b' in text, len(text) < 20000", "(False, True)")
		wantOutput(t, r, "hostile.nothing", "AttributeError: hostile has no function nothing")
		wantOutput(t, r, "turnstone.search('huge')[-1]", "hostile: skipped tools: ")
		wantOutput(t, r, "hostile['huge']", "KeyError", "hostile has no function huge")
		wantOutput(t, r, "1 + 1", "2")
	})

	t.Run("malformed messages leave the session usable", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{Allow: []string{"*"}}, "storm", "hasty", "ancient", "endless", "toolless", "twisted", "closing", "texts")
		s.timeouts = timeouts{start: time.Minute, discover: time.Second, write: writeTimeout}
		r := newSessionWith(t, s)
		wantOutput(t, r, "import turnstone; from turnstone.tools import storm; storm.do(), storm.do()", "('after the storm', 'after the storm')")
		// Its answers may come before the requests. Then the SDK expects none of them, and the
		// call works.
		if output := wantOutput(t, r, "from turnstone.tools import hasty; hasty.do()").OutputText(); !strings.Contains(output, "ConnectionError: the server hasty did not start: ") && !strings.Contains(output, "'ran do'") {
			t.Errorf("a server that answers too early: %s", output)
		}
		wantOutput(t, r, "from turnstone.tools import ancient", "ConnectionError: the server ancient did not start: ", "1999-01-01")
		wantOutput(t, r, "from turnstone.tools import endless; endless.same(), endless.own7(), len(dir(endless))", "('ran same', 'ran own7', 101)")
		wantOutput(t, r, "from turnstone.tools import toolless", "the server toolless offers no tools that code may call")
		wantOutput(t, r, "from turnstone.tools import closing", "")
		wantOutput(t, r, "closing.do()", "ConnectionError", "closing")
		wantOutput(t, r, "from turnstone.tools import twisted\nfor text in '''null\n7\n[]\n{}\n{\"content\":null}\n{\"content\":\"text\"}\n{\"content\":[{\"type\":\"text\"}]}\n{\"content\":[{\"type\":\"nonsense\",\"x\":1}]}\n{\"content\":[{\"type\":\"image\",\"data\":\"%%%\",\"mimeType\":\"image/png\"}]}\n{\"content\":[{\"type\":\"resource\"}]}\n{\"content\":[],\"structuredContent\":{\"n\":1},\"_meta\":null}\n{\"content\":[],\"structuredContent\":[1e400]}\n{\"content\":[],\"structuredContent\":null}\n{\"isError\":true}\n{\"isError\":true,\"content\":[{\"type\":\"image\",\"data\":\"\",\"mimeType\":\"\"}]}'''.split('\\n'):\n    try: print(text, '->', twisted.do(text=text))\n    except (turnstone.CallError, ConnectionError) as e: print(text, '-> error:', type(e).__name__, e)",
			`{"content":[],"structuredContent":{"n":1},"_meta":null} -> {'n': 1}`, `{"isError":true} -> error: ToolError the tool failed without a message`)
		wantOutput(t, r, "for text in '''{\"content\":\"text\"}\n{\"content\":[{\"type\":\"nonsense\"}]}\n{\"content\":[{\"type\":\"image\",\"data\":\"%%%\",\"mimeType\":\"image/png\"}]}'''.split('\\n'):\n    try: twisted.do(text=text)\n    except turnstone.ToolError as e: print(e)",
			"the server twisted ran do, but its result is unusable: a field has the wrong type\n",
			"its result is unusable: unknown content type \"nonsense\"\n",
			"its result is unusable: the data is not base64\n")
		wantOutput(t, r, "twisted.do(text='{\"content\":[]}')", "")
		wantOutput(t, r, "from turnstone.tools import texts; texts.do()", "ran do")
		wantOutput(t, r, "1 + 1", "2")
	})

	// A server that stops reading must not block calls or the program forever.
	t.Run("a server that does not read is ended", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{Allow: []string{"*"}}, "unread")
		s.timeouts.write = time.Second
		r := newSessionWith(t, s)
		wantOutput(t, r, "from turnstone.tools import unread", "")
		wantOutput(t, r, "unread.do(text='x' * 5_000_000)", "ConnectionError: the connection to the server unread ended during do", "it stopped reading its input")
		wantOutput(t, r, "1 + 1", "2")
	})
}
