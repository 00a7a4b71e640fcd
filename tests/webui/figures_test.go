//go:build unix

package webui

import (
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// TestPage_Figures logs durations, and asserts nothing about them. TestCharts logs those of charts.
func TestPage_Figures(t *testing.T) {
	t.Run("a turn with and without an open page", func(t *testing.T) {
		s := newTestDaemon(t)
		s.openSession("main")
		s.startPage("main")
		measure := func() time.Duration {
			var all []time.Duration
			for range 200 {
				begin := time.Now()
				s.execCode("main", "for i in range(20): print(i)")
				all = append(all, time.Since(begin))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		measure()
		without := measure()
		b := openTab(t)
		b.openAddress(s.lastLink())
		b.waitText("19")
		with := measure()
		b.waitUntil("the page shows the last turn", `[...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "600"`)
		t.Logf("median turn: %v without and %v with an open page: %.2f×", without, with, float64(with)/float64(without))
	})

	t.Run("the first contents of 100 000 events", func(t *testing.T) {
		s := newTestDaemon(t)
		s.openSession("main")
		var reply session.Reply
		for range 100 {
			reply = s.execCode("main", "import sys\nfor i in range(500): print(i, flush=True); print(i, file=sys.stderr, flush=True)")
		}
		s.startPage("main")
		b := openTab(t)
		b.openAddress(s.lastLink())
		const shown = `[...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "100" && document.querySelector(".turn .out")`
		b.waitUntil("the last turn is shown", shown)
		for range 3 {
			evalExpression[bool](b, `(window.old = true, location.reload(), true)`)
			b.waitUntil("the last turn is shown", "!window.old && "+shown)
			t.Logf("%d events: the newest contents arrived %.0f ms and were painted %.0f ms after navigation", reply.Next, evalExpression[float64](b, `performance.getEntriesByType("resource").find((r) => r.name.includes("/api/read")).responseEnd`),
				evalExpression[float64](b, `new Promise((resolve) => new PerformanceObserver((l) => resolve(l.getEntries().at(-1).startTime)).observe({type: "largest-contentful-paint", buffered: true}))`))
		}
	})

	t.Run("a table of a million rows", func(t *testing.T) {
		s, b := openTableSession(t, "import pandas as pd")
		s.execCode("main", millionRows+"; 1")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitText("Started")
		for range 3 {
			evalExpression[bool](b, `(window.shown = new Promise((resolve) => {
				const before = document.querySelectorAll(".datatable").length;
				const watch = new MutationObserver(() => {
					if (document.querySelectorAll(".datatable").length > before) { watch.disconnect(); resolve(Date.now()); }
				});
				watch.observe(document.body, {childList: true, subtree: true});
			}), true)`)
			begin := time.Now()
			s.execCode("main", "f")
			turn := time.Since(begin)
			shown := evalExpression[float64](b, `window.shown`) - float64(begin.UnixMilli())
			t.Logf("the turn took %v; its first rows were on the page %.0f ms after its begin", turn, shown)
		}
		if n := evalExpression[int](b, `performance.getEntriesByType("resource").filter((r) => r.name.endsWith("/api/table")).length`); n > 0 {
			t.Errorf("the page asked the worker %d times for rows that nobody looked for", n)
		}
	})
}
