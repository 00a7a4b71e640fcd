// Package r tests the guarantees for programs that open R sessions through the supervisor. The tests use
// the public API, the real monitor and the installed R with the prebuilt shim. No test inspects
// frames.
//
// Most tests are for Linux, where all guarantees hold. TURNSTONE_TEST_ROUNDS=n makes the race and soak
// tests n times as long.
package r
