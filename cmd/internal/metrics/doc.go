// Package metrics counts what happens in the sessions of a daemon, and writes the counts in the text
// format of Prometheus. The events of the sessions are the only source of the counters. Gauges, such
// as the number of sessions, are read when the text is written.
//
//	counters := metrics.NewCounters()
//	supervisor.New(&supervisor.Options{OnEvent: counters.CountEvent})
//	text := counters.Format(gauges)
//
// Counting an event takes a few atomic additions, and nothing happens while no event does. A label
// has a language, a state, an outcome or a reason, and never a session, code or output.
//
// The text is written by hand, because the client library of Prometheus would add ten modules to a
// program that needs one page of text ([ADR 123]).
//
// [ADR 123]: https://github.com/turnstone-repl/turnstone/blob/main/docs/adr/0123-metrics-are-written-by-hand-and-traces-are-a-wrapper.md
package metrics
