// Package webui tests the web UI of repl view in a real browser, Chromium, with a real daemon and
// real sessions. TURNSTONE_TEST_SHOTS=DIR saves screenshots of it.
package webui
