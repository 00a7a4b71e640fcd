//go:build unix

package page

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// sleep has the browser freeze a tab, as it does with one that nobody has looked at for long, or wake it.
func (b *tab) sleep(frozen bool) {
	b.t.Helper()
	state := map[bool]string{true: "frozen", false: "active"}[frozen]
	b.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, cdpage.SetWebLifecycleState, cdpage.SetWebLifecycleStateParams{State: cdpage.SetWebLifecycleStateState(state)})
		return v, err
	})
}

// A browser has six connections for all tabs of a host. The first tab holds the stream of ticks for all,
// and sleeps here.
func TestPage_EightTabsGoOnWhileTheFirstSleeps(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := browser(t)
	s.open("main")
	s.exec("main", "print('before')")
	s.view("main")
	first.open(s.link())
	first.sees("before")
	var others []*tab
	for range 7 {
		b := first.another()
		b.open(s.origin + "/s/main")
		b.sees("before")
		others = append(others, b)
	}
	s.exec("main", "print('to all')")
	for _, b := range others {
		b.sees("to all")
	}
	first.sleep(true)
	s.exec("main", "print('while it slept')")
	for _, b := range others {
		b.sees("while it slept")
	}
	first.sleep(false)
	first.sees("while it slept")
	s.exec("main", "print('awake')")
	for _, b := range append(others, first) {
		b.sees("awake")
	}
}
