// Package python tests the guarantees for programs that open Python sessions through the supervisor. The
// tests use the public API, the real monitor and a real interpreter. No test inspects frames.
//
// All guarantees hold on Linux, where the monitor sees which process reads the terminal. On Windows,
// the tests about children and readers of the terminal do not run.
//
// TURNSTONE_ALL_PYTHONS=1 runs them with every installed Python 3.8 and newer.
// TURNSTONE_TEST_ROUNDS=n makes tests of races and order n times as long.
package python
