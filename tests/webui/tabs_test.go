//go:build unix

package webui

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// setFrozen freezes or wakes a tab, as a browser does with tabs that were hidden for long.
func (b *browserTab) setFrozen(frozen bool) {
	b.t.Helper()
	state := map[bool]string{true: "frozen", false: "active"}[frozen]
	b.runSteps(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, cdpage.SetWebLifecycleState, cdpage.SetWebLifecycleStateParams{State: cdpage.SetWebLifecycleStateState(state)})
		return v, err
	})
}

// A browser has six connections for all tabs of a host. The first tab holds the stream of changes
// for all tabs. It is frozen here.
func TestPage_FrozenTab(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	first := openTab(t)
	s.openSession("main")
	s.execCode("main", "print('before')")
	s.startPage("main")
	first.openAddress(s.lastLink())
	first.waitText("before")
	var others []*browserTab
	for range 7 {
		b := first.openSiblingTab()
		b.openAddress(s.origin + "/s/main")
		b.waitText("before")
		others = append(others, b)
	}
	s.execCode("main", "print('to all')")
	for _, b := range others {
		b.waitText("to all")
	}
	first.setFrozen(true)
	s.execCode("main", "print('while it was frozen')")
	for _, b := range others {
		b.waitText("while it was frozen")
	}
	first.setFrozen(false)
	first.waitText("while it was frozen")
	s.execCode("main", "print('awake')")
	for _, b := range append(others, first) {
		b.waitText("awake")
	}
}
