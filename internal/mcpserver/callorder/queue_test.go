package callorder_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
)

// A step is one event for a queue, and the decisions that it brings: "b" means that b owns the turn,
// and "b: why" that its input is refused.
type step struct {
	do   func(q *callorder.TurnQueue[string]) []callorder.Decision[string]
	want string
}

func join(call string, number uint64, want string) step {
	return step{func(q *callorder.TurnQueue[string]) []callorder.Decision[string] { return q.Join(call, number) }, want}
}

func takeOver(call string, number uint64) step {
	return step{func(q *callorder.TurnQueue[string]) []callorder.Decision[string] {
		q.TakeOver(call, number)
		return nil
	}, ""}
}

func release(call string, outcome callorder.CallOutcome, last uint64, want string) step {
	return step{func(q *callorder.TurnQueue[string]) []callorder.Decision[string] {
		return q.Release(call, outcome, last)
	}, want}
}

func drop(call string, cancelled bool, want string) step {
	return step{func(q *callorder.TurnQueue[string]) []callorder.Decision[string] {
		decisions, _ := q.Drop(call, cancelled)
		return decisions
	}, want}
}

func rejectBefore(number uint64, want string) step {
	return step{func(q *callorder.TurnQueue[string]) []callorder.Decision[string] { return q.RejectBefore(number) }, want}
}

func describe(decisions []callorder.Decision[string]) string {
	var all []string
	for _, d := range decisions {
		all = append(all, strings.TrimSuffix(d.Call+": "+d.Refusal, ": "))
	}
	return strings.Join(all, ", ")
}

func TestTurnQueue(t *testing.T) {
	t.Parallel()
	const (
		failed  = "an earlier call, which was not answered yet, ended in an error"
		stopped = "a later call stopped what ran before it"
		skipped = "the one before it was not run"
	)
	full := []step{join("owner", 1, "owner")}
	for n := range uint64(16) {
		full = append(full, join(fmt.Sprint("waits", n), 2+n, ""))
	}
	for name, row := range map[string]struct {
		steps []step
		owner string // at the end
	}{
		"the first call owns the turn":         {[]step{join("a", 1, "a")}, "a"},
		"the next runs after one that is done": {[]step{join("a", 1, "a"), join("b", 2, ""), release("a", callorder.OutcomeDone, 2, "b")}, "b"},
		"in the order of arrival":              {[]step{join("a", 1, "a"), join("b", 2, ""), join("c", 3, ""), release("a", callorder.OutcomeDone, 3, "b"), release("b", callorder.OutcomeDone, 3, "c")}, "c"},
		"an error refuses those behind it":     {[]step{join("a", 1, "a"), join("b", 2, ""), join("c", 3, ""), release("a", callorder.OutcomeError, 3, "b: "+failed+", c: "+failed)}, ""},
		"but not those after its answer":       {[]step{join("a", 1, "a"), join("b", 2, ""), join("c", 3, ""), release("a", callorder.OutcomeError, 2, "b: "+failed+", c")}, "c"},
		"an error refuses those still to come": {[]step{join("a", 1, "a"), release("a", callorder.OutcomeError, 2, ""), join("b", 2, "b: "+failed), join("c", 3, "c")}, "c"},
		"a cancelled call refuses none":        {[]step{join("a", 1, "a"), join("b", 2, ""), release("a", callorder.OutcomeCancelled, 2, "b")}, "b"},
		"only the owner releases":              {[]step{join("a", 1, "a"), join("b", 2, ""), release("b", callorder.OutcomeError, 2, "")}, "a"},
		"a released call releases nothing":     {[]step{join("a", 1, "a"), release("a", callorder.OutcomeDone, 1, ""), release("a", callorder.OutcomeError, 9, ""), join("b", 2, "b")}, "b"},
		"a call takes the turn over":           {[]step{join("a", 1, "a"), takeOver("b", 2), release("a", callorder.OutcomeError, 9, ""), join("c", 3, "")}, "b"},
		"the queue is bounded":                 {append(slices.Clone(full), join("late", 99, "late: 16 other inputs are queued already")), "owner"},

		"a call that waited too long leaves, and those behind it": {[]step{join("a", 1, "a"), join("b", 2, ""), join("c", 3, ""), drop("b", false, "c: "+skipped), join("d", 4, "d: "+callorder.ReasonNotAnswered), release("a", callorder.OutcomeDone, 4, "")}, ""},
		"a cancelled call leaves alone":                           {[]step{join("a", 1, "a"), join("b", 2, ""), join("c", 3, ""), drop("b", true, ""), release("a", callorder.OutcomeDone, 3, "c")}, "c"},
		"a call that is not queued is not dropped":                {[]step{join("a", 1, "a"), join("b", 2, ""), drop("a", false, ""), release("a", callorder.OutcomeDone, 2, "b")}, "b"},
		"an interrupt refuses what came before it":                {[]step{join("a", 1, "a"), join("b", 2, ""), rejectBefore(3, "b: "+stopped)}, "a"},
		"and spares what came after it":                           {[]step{join("a", 1, "a"), join("c", 3, ""), rejectBefore(2, ""), release("a", callorder.OutcomeInterrupted, 3, "c")}, "c"},
		"the earliest interrupt counts":                           {[]step{join("a", 1, "a"), join("c", 3, ""), join("e", 5, ""), rejectBefore(4, "c: "+stopped), rejectBefore(2, ""), release("a", callorder.OutcomeInterrupted, 9, "e")}, "e"},
		"an interrupt lets its own input in after an error":       {[]step{join("a", 1, "a"), release("a", callorder.OutcomeError, 5, ""), rejectBefore(3, ""), join("b", 2, "b: "+failed), join("c", 3, "c")}, "c"},
		"without an order an interrupt refuses nothing":           {[]step{join("a", 1, "a"), join("b", 2, ""), rejectBefore(0, ""), release("a", callorder.OutcomeDone, 2, "b")}, "b"},
		"an input without a number runs at once":                  {[]step{join("a", 1, "a"), join("b", 0, "b")}, "a"},
	} {
		var q callorder.TurnQueue[string]
		for i, s := range row.steps {
			if got := describe(s.do(&q)); got != s.want {
				t.Errorf("%s: step %d: got %q, want %q", name, i, got, s.want)
			}
		}
		if owner, _ := q.Owner(); owner != row.owner {
			t.Errorf("%s: %q owns the turn, want %q", name, owner, row.owner)
		}
	}
}
