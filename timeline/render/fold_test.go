package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// renderFolded returns the rendering of a turn that printed this.
func renderFolded(printed string, frames bool) render.Rendering {
	return render.Events([]timeline.Event{
		{Turn: 1, Body: timeline.TurnStarted{}},
		{Turn: 1, Line: 1, Body: timeline.Text{Stream: timeline.Stderr, Data: []byte(printed)}},
		{Turn: 1, Body: timeline.TurnEnded{}},
	}, &render.Options{FoldFrames: frames, OutputPath: "/o", MaxChars: 2000})
}

func TestRenderFold(t *testing.T) {
	// The stacks are copied from CPython.
	t.Run("folds library frames of a traceback", func(t *testing.T) {
		const lib = "/usr/lib/python3.11/"
		frame := func(file, name string) string {
			return fmt.Sprintf("  File \"%s\", line 7, in %s\n    code()\n    ^^^^^^\n", file, name)
		}
		const head, end = "Traceback (most recent call last):\n", "KeyError: 1\n"
		for _, test := range []struct{ name, printed, want string }{
			{
				"the last stays", head + frame("<cell 1>", "<module>") + frame(lib+"json/__init__.py", "loads") + frame(lib+"json/decoder.py", "decode") + frame(lib+"json/decoder.py", "raw") + end,
				head + frame("<cell 1>", "<module>") + frame(lib+"json/__init__.py", "loads") + "  … 1 frame in json/decoder.py …\n" + frame(lib+"json/decoder.py", "raw") + end,
			},
			{
				"the project stays", head + frame("<cell 1>", "<module>") + frame(lib+"asyncio/runners.py", "run") + frame(lib+"asyncio/base_events.py", "a") + frame(lib+"asyncio/tasks.py", "b") + frame("/project/p.py", "f") + frame("/project/p.py", "g") + end,
				head + frame("<cell 1>", "<module>") + frame(lib+"asyncio/runners.py", "run") + "  … 2 frames in asyncio/base_events.py, asyncio/tasks.py …\n" + frame("/project/p.py", "f") + frame("/project/p.py", "g") + end,
			},
			{
				"packages", head + frame("/p/.venv/lib/python3.12/site-packages/pandas/a.py", "a") + frame("/p/.venv/lib/python3.12/site-packages/pandas/b.py", "a") + frame("pandas/_libs/index.pyx", "a") + frame("<frozen importlib._bootstrap>", "a") + frame(`C:\Python313\Lib\site-packages\numpy\x.py`, "x") + frame(`C:\Python313\Lib\json\x.py`, "x") + frame("<cell 2>", "f") + end,
				head + frame("/p/.venv/lib/python3.12/site-packages/pandas/a.py", "a") + "  … 5 frames in pandas, <frozen importlib._bootstrap>, numpy and others …\n" + frame("<cell 2>", "f") + end,
			},
			{
				"in a group", "    | " + strings.ReplaceAll(strings.TrimSuffix(head+frame("<cell 1>", "f")+frame(lib+"a.py", "a")+frame(lib+"b.py", "b")+frame(lib+"c.py", "c")+end, "\n"), "\n", "\n    | ") + "\n",
				"    | " + strings.ReplaceAll(strings.TrimSuffix(head+frame("<cell 1>", "f")+frame(lib+"a.py", "a")+"  … 1 frame in b.py …\n"+frame(lib+"c.py", "c")+end, "\n"), "\n", "\n    | ") + "\n",
			},
			{
				"no traceback", frame(lib+"a.py", "a") + frame(lib+"a.py", "b") + frame(lib+"a.py", "c"),
				frame(lib+"a.py", "a") + frame(lib+"a.py", "b") + frame(lib+"a.py", "c"),
			},
			{
				"a fault", "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n  File \"<cell 7>\", line 2 in <module>\n" +
					"  File \"<turnstone_worker/cells.py: importlib._bootstrap>\", line 58 in run\n  File \"/tmp/files-1/boot.py\", line 103 in <module>\n",
				"Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n  File \"<cell 7>\", line 2 in <module>\n",
			},
			{
				"a thread of the worker's", "Thread 0x1 (most recent call first):\n  File \"<turnstone_worker/link.py: importlib._bootstrap>\", line 58 in run\n\nThread 0x2 (most recent call first):\n  <no Python frame>\n",
				"\nThread 0x2 (most recent call first):\n  <no Python frame>\n",
			},
		} {
			if got := renderFolded(test.printed, true).Text(); got != test.want {
				t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
			}
			if got := renderFolded(test.printed, false).Text(); got != test.printed {
				t.Errorf("%s: folded without FoldFrames:\n%s", test.name, got)
			}
		}
	})

	t.Run("folds groups of lines that repeat", func(t *testing.T) {
		for lines := 2; lines <= 5; lines++ {
			group := ""
			for i := range lines {
				group += fmt.Sprintf("line %d\n", i)
			}
			for _, times := range []int{3, 4, 50} {
				printed := "before\n" + strings.Repeat(group, times) + "line 0\nafter\n"
				want := printed
				if times >= 4 && lines <= 4 {
					want = "before\n" + group + fmt.Sprintf("… these %d lines %d times in all\n", lines, times) + "line 0\nafter\n"
				}
				got := renderFolded(printed, false)
				if got.Text() != want || got.Omitted {
					t.Errorf("%d lines, %d times: got %q, want %q", lines, times, got.Text(), want)
				}
			}
		}
	})

	// A repeated group may be in the omitted part. Its lines still count.
	t.Run("counts the lines of a folded group that is omitted", func(t *testing.T) {
		one := func(n int) (s string) {
			for i := range n {
				s += fmt.Sprintf("%06d%s\n", i, strings.Repeat("x", 40))
			}
			return s
		}
		got := renderFolded(one(30)+strings.Repeat("a\nb\n", 1000)+one(100), false).Text()
		retained := strings.Count(got, "xxx\n")
		if want := fmt.Sprintf("… %d,%03d lines (", (2130-retained)/1000, (2130-retained)%1000); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	})
}
